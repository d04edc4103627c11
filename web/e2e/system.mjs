// The whole system in a real browser: join, wait and admission through a running edge, with and without
// JavaScript.
//
// ROPELINE_E2E_URL   address of a gated page of a running edge whose room is not idle; if it is not set,
//                    `go run ./cmd/ropeline demo` is started on a free port and stopped at the end.
// ROPELINE_E2E_WAIT  seconds after which a visitor must be in, default 120.
import { describe, test, before, after } from 'node:test';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { launch, watchErrors, until, START_TIMEOUT } from './browser.mjs';

const ROOT = new URL('../../', import.meta.url).pathname;
const SHOTS = new URL('shots/', import.meta.url).pathname;
const PATIENCE = Number(process.env.ROPELINE_E2E_WAIT || 120) * 1000;
// Slow enough that a visitor sees the line, fast enough that a test sees its end.
const DEMO = ['run', './cmd/ropeline', 'demo', '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0', '--visitors', '300', '--rate', '10/s',
  '--active-limit', '500', '--duration', '0'];

let browser, demo, url;

before(async () => {
  await mkdir(SHOTS, { recursive: true });
  browser = await launch();
  url = process.env.ROPELINE_E2E_URL || await startDemo();
}, { timeout: 10 * 60_000 });

after(async () => {
  await browser?.close();
  if (demo) await stopDemo();
});

// startDemo resolves to the first address that the demo prints. A first build takes minutes.
async function startDemo() {
  demo = spawn('go', DEMO, { cwd: ROOT, detached: true, stdio: ['ignore', 'pipe', 'inherit'] });
  let printed = '';
  let ended = false;
  demo.stdout.on('data', chunk => { printed += chunk; });
  demo.on('exit', () => { ended = true; });
  const found = await until('the demo prints its address', () => {
    if (ended) throw new Error(`the demo ended:\n${printed}`);
    return printed.match(/https?:\/\/127\.0\.0\.1:\d+\S*/);
  }, 8 * 60_000);
  return found[0];
}

// stopDemo interrupts the group: `go run` does not hand signals on.
async function stopDemo() {
  const gone = new Promise(resolve => demo.on('exit', resolve));
  process.kill(-demo.pid, 'SIGINT');
  const force = setTimeout(() => process.kill(-demo.pid, 'SIGKILL'), 20_000);
  await gone;
  clearTimeout(force);
}

const queued = response => response.headers()['x-ropeline-state'] === 'queue';

// inLine opens the page until it is the queue page: with nobody waiting, a visitor is admitted at once.
async function inLine(options) {
  for (let tries = 0; tries < 100; tries++) {
    const context = await browser.newContext({ locale: 'en-GB', viewport: { width: 360, height: 740 }, ...options });
    const page = await context.newPage();
    const response = await page.goto(url);
    if (queued(response)) return { context, page };
    await context.close();
    await new Promise(resolve => setTimeout(resolve, 100));
  }
  throw new Error(`${url} never showed the queue page: is anybody waiting there?`);
}

// glance reads the queue page, or null where it is not shown (any more).
function glance(page) {
  return page.evaluate(() => {
    const people = document.getElementById('people');
    if (!people) return null;
    const digits = people.textContent.match(/[\d.,]+$/);
    const ahead = document.getElementById('ahead').hidden ? null : digits ? Number(digits[0].replace(/\D/g, '')) : 0;
    return { number: document.getElementById('facts').hidden ? '' : document.getElementById('number').textContent, ahead };
  }).catch(() => null);
}

describe('the whole system', { concurrency: 3 }, () => {
  test('a visitor joins, waits and gets in', { timeout: START_TIMEOUT + PATIENCE }, async () => {
    const { context, page } = await inLine();
    const errors = watchErrors(page);
    const site = page.waitForResponse(r => r.request().isNavigationRequest() && r.ok() && !queued(r), { timeout: PATIENCE });
    site.catch(() => {}); // awaited below
    // Between the join and the turn there may be little time, so everything is read at once.
    const seen = [];
    await until('a place', async () => {
      const now = await glance(page);
      if (now) seen.push(now);
      return now?.number;
    });
    await page.screenshot({ path: `${SHOTS}system-waiting.png` });
    const reading = setInterval(async () => {
      const now = await glance(page);
      if (now) seen.push(now);
    }, 250);
    const admitted = await site;
    clearInterval(reading);
    await page.waitForLoadState();
    await page.screenshot({ path: `${SHOTS}system-admitted.png` });
    assert.equal(page.url(), admitted.url());
    const numbers = new Set(seen.filter(s => s.number).map(s => s.number));
    assert.equal(numbers.size, 1, `one place, got ${[...numbers]}`);
    const ahead = seen.filter(s => s.ahead !== null).map(s => s.ahead);
    assert.deepEqual(ahead, [...ahead].sort((a, b) => b - a), 'the number ahead grew');
    assert.deepEqual(errors, []);
    const again = await page.goto(url);
    assert.ok(!queued(again), 'an admitted visitor stays in');
    const access = (await context.cookies()).find(c => /^(__Host-)?ropeline_(?!place_)/.test(c.name));
    assert.ok(access?.httpOnly && access.sameSite === 'Lax', JSON.stringify(access));
    await context.close();
  });

  test('a visitor without JavaScript joins, waits and gets in', { timeout: START_TIMEOUT + PATIENCE }, async () => {
    const { context, page } = await inLine({ javaScriptEnabled: false });
    const site = page.waitForResponse(r => r.request().isNavigationRequest() && r.ok() && !('x-ropeline-state' in r.headers()), { timeout: PATIENCE });
    site.catch(() => {}); // awaited below
    await page.click('section[lang=en] button');
    await page.screenshot({ path: `${SHOTS}system-nojs.png` });
    await site;
    await context.close();
  });

  test('a visitor leaves, and the place is gone', { timeout: START_TIMEOUT + PATIENCE }, async () => {
    const { context, page } = await inLine({ javaScriptEnabled: false });
    await page.click('section[lang=en] button');
    await page.click('form[action$="/leave"] button');
    assert.match(await page.textContent('main'), /You are not in line/);
    await context.close();
  });
});

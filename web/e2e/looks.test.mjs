// Every state on a phone and a large screen, in both schemes and languages: no axe violation, and a picture
// of each in shots/ to look at.
import { test, before, after } from 'node:test';
import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { launch, violations, START_TIMEOUT } from './browser.mjs';
import { Stub } from './stub.mjs';

const PAGES = process.env.ROPELINE_E2E_PAGES || new URL('pages', import.meta.url).pathname;
const SHOTS = new URL('shots/', import.meta.url).pathname;
let browser;

before(async () => {
  browser = await launch();
  await mkdir(SHOTS, { recursive: true });
}, { timeout: START_TIMEOUT });
after(() => browser?.close());

const soon = new Date('2030-12-10T03:00:00Z').toISOString();
const reason = { vi: 'Sân khấu đang được kiểm tra an toàn. Chúng tôi sẽ mở lại trong ít phút.', en: 'The stage is being checked for safety. We go on in a few minutes.' };

// Each state: what the server says, which state the page then has, and what the visitor does.
const STATES = {
  waiting: { state: 'waiting' },
  next: { place: { ahead: 0, etaSeconds: { low: 0, high: 20 } }, state: 'waiting' },
  before: { place: { state: 'before_opening', ahead: undefined, opensAt: soon }, state: 'before_opening' },
  soon: { place: { state: 'before_opening', ahead: undefined, opensAt: new Date(Date.now() + 754_000).toISOString() }, state: 'before_opening' },
  paused: { place: { state: 'paused', reason: 'lang' }, state: 'paused' },
  holding: { place: { state: 'holding' }, state: 'holding' },
  full: { place: { state: 'full' }, state: 'full' },
  expired: { place: { state: 'expired' }, state: 'expired' },
  admitted: { place: { state: 'admitted' }, state: 'admitted' },
  closed: { problem: { status: 409, type: 'room-closed' }, status: { state: 'closed', reason: 'lang' }, state: 'closed', then: page => page.waitForSelector('#reason-box:not([hidden])') },
  'closed-place': { place: { state: 'closed', reason: 'lang' }, state: 'closed' },
  'full-new': { problem: { status: 409, type: 'room-closed', state: 'full' }, status: { state: 'full' }, state: 'full' },
  linefull: { problem: { status: 503, type: 'line-full' }, state: 'linefull' },
  signin: { problem: { status: 403, type: 'identity-required' }, state: 'signin' },
  away: { problem: { status: 503, type: 'redis-away', retryAfter: 30 }, state: 'joining', then: page => page.waitForSelector('#trouble:not([hidden])') },
  stuck: { place: { state: 'admitted' }, shut: true, state: 'stuck' },
  busy: { problem: { status: 503, type: 'unknown', retryAfter: 30 }, state: 'joining', then: page => page.waitForSelector('#trouble:not([hidden])') },
  offline: { state: 'waiting', then: (page, context) => context.setOffline(true).then(() => page.waitForSelector('#trouble:not([hidden])')) },
  leaving: { state: 'waiting', then: page => page.click('#leave') },
};

for (const [width, height] of [[360, 740], [1280, 800]]) {
  for (const scheme of ['light', 'dark']) {
    for (const lang of ['vi', 'en']) {
      test(`every state is accessible: ${width} px, ${scheme}, ${lang}`, { timeout: 180_000 }, async () => {
        // Width changes nothing that axe sees, so the large screen is checked once per scheme and language.
        const check = width < 600 || (scheme === 'light') === (lang === 'en');
        const wrong = [];
        for (const [name, want] of Object.entries(STATES)) {
          const found = await show(name, want, { width, height }, scheme, lang, check);
          wrong.push(...found.map(line => `${name}: ${line}`));
        }
        wrong.push(...await plainPages({ width, height }, scheme, lang, check));
        assert.deepEqual(wrong, []);
      });
    }
  }
}

async function show(name, want, viewport, scheme, lang, check) {
  const stub = await new Stub(PAGES).start();
  const context = await newContext(viewport, scheme, lang);
  try {
    const fillIn = object => object && { ...object, ...(object.reason ? { reason: reason[lang] } : {}) };
    Object.assign(stub.place, fillIn(want.place));
    stub.problem = want.problem || null;
    stub.doorOpen = !want.shut;
    stub.status = fillIn(want.status) || stub.status;
    const page = await context.newPage();
    // The admitted state is gone as soon as the page reloads, so its timer waits here.
    if (name === 'admitted') await page.addInitScript(() => {
      const later = window.setTimeout;
      window.setTimeout = (run, ms) => later(run, ms === 700 ? 60_000 : ms);
    });
    await page.goto(`${stub.url}/tickets/`);
    await page.waitForSelector(`#card[data-state=${want.state}]`);
    if (want.then) await want.then(page, context);
    return await look(page, name, viewport, scheme, lang, check);
  } finally {
    await context.close();
    await stub.stop();
  }
}

async function plainPages(viewport, scheme, lang, check) {
  const stub = await new Stub(PAGES).start();
  const context = await newContext(viewport, scheme, lang);
  const wrong = [];
  try {
    // The page has no script of its own, so they are on here, for axe.
    const page = await context.newPage();
    for (const file of ['wait-waiting', 'wait-before_opening', 'wait-paused', 'wait-admitted', 'wait-expired', 'wait-closed', 'wait-full', 'wait-closed-new', 'wait-full-new', 'wait-']) {
      await page.route('**/plain', route => stubFile(route, stub, `${file}-${lang}.html`));
      await page.goto(`${stub.url}/plain`);
      wrong.push(...(await look(page, `nojs-${file}`, viewport, scheme, lang, check)).map(line => `${file}: ${line}`));
      await page.unroute('**/plain');
    }
    for (const status of ['403', '404', '502', '502-refresh', '504']) {
      await page.route('**/plain', route => stubFile(route, stub, `error-${status}.html`));
      await page.goto(`${stub.url}/plain`);
      wrong.push(...(await look(page, `error-${status}`, viewport, scheme, lang, check)).map(line => `error ${status}: ${line}`));
      await page.unroute('**/plain');
    }
  } finally {
    await context.close();
    await stub.stop();
  }
  return wrong;
}

async function stubFile(route, stub, name) {
  const { readFile } = await import('node:fs/promises');
  const body = (await readFile(`${PAGES}/${name}`, 'utf8')).replace(/<meta http-equiv="refresh"[^>]*>/, '');
  await route.fulfill({ body, contentType: 'text/html; charset=utf-8', headers: { 'Content-Security-Policy': stub.policies[name] } });
}

function newContext(viewport, scheme, lang) {
  return browser.newContext({
    viewport, colorScheme: scheme, locale: lang === 'vi' ? 'vi-VN' : 'en-GB', timezoneId: 'Asia/Ho_Chi_Minh', reducedMotion: 'reduce',
    deviceScaleFactor: viewport.width < 600 ? 2 : 1,
  });
}

async function look(page, name, viewport, scheme, lang, check) {
  await page.screenshot({ path: `${SHOTS}${name}-${viewport.width}-${scheme}-${lang}.png` });
  return check ? violations(page) : [];
}

// The queue page in a real browser, against a stub of the edge.
import { test, before, after, beforeEach, afterEach } from 'node:test';
import assert from 'node:assert/strict';
import { launch, watchErrors, until, START_TIMEOUT } from './browser.mjs';
import { Stub } from './stub.mjs';

const PAGES = process.env.ROPELINE_E2E_PAGES || new URL('pages', import.meta.url).pathname;
let browser, stub, context;

before(async () => {
  browser = await launch();
}, { timeout: START_TIMEOUT });
after(() => browser?.close());
beforeEach(async () => {
  stub = await new Stub(PAGES).start();
  context = await browser.newContext({ locale: 'en-GB', viewport: { width: 360, height: 740 } });
});
afterEach(async () => {
  await context.close();
  await stub.stop();
});

// open shows the gated address and waits until the first answer is on the page.
async function open(path = '/tickets/', state = 'waiting') {
  const page = await context.newPage();
  page.errors = watchErrors(page);
  await page.goto(stub.url + path);
  if (state) await inState(page, state);
  return page;
}

const inState = (page, state) => page.waitForSelector(`#card[data-state=${state}]`, { timeout: 15_000 });
const text = (page, id) => page.textContent(`#${id}`);
const poll = (page, place) => {
  Object.assign(stub.place, place);
  return leap(page, 3_600_000);
};

// leap is a phone that slept: its clock is ahead, its timers are not, and then it is looked at again.
async function leap(page, ms) {
  await page.evaluate(by => {
    const real = Date.now.bind(Date);
    Date.now = () => real() + by;
    document.dispatchEvent(new Event('visibilitychange'));
    Date.now = real;
  }, ms);
}

test('a visitor joins and sees the way ahead', async () => {
  const page = await open();
  assert.equal(await text(page, 'people'), 'about 12,000');
  assert.equal(await text(page, 'people-label'), 'people ahead of you');
  assert.equal(await text(page, 'wait-range'), '10–25 minutes');
  assert.equal(await text(page, 'number'), '20,345');
  assert.match(await page.title(), /^about 12,000 ahead – Spring Tour/);
  assert.match(await text(page, 'updated'), /\d\d:\d\d:\d\d/);
  assert.equal(await page.isVisible('.plain'), false);
  assert.deepEqual(page.errors, []);
  assert.deepEqual(stub.log, ['GET /tickets/', 'POST /_ropeline/events/spring-tour/queue'], 'the page fetches only the queue API');
});

test('it polls when told to and not sooner', async () => {
  stub.place.pollAfterMs = 1500;
  const from = Date.now();
  await open();
  await until('three polls', () => stub.count('GET /_ropeline/events/spring-tour/queue/me') >= 3);
  assert.ok(Date.now() - from >= 3 * 1500, 'the polls came too soon');
  assert.equal(stub.count('POST'), 1);
});

test('the number never grows, also after a reload', async () => {
  const page = await open();
  await poll(page, { ahead: 640 });
  await until('a smaller number', async () => await text(page, 'people') === 'about 640');
  assert.equal(await page.getAttribute('#progress', 'aria-valuenow'), '95');
  const polls = stub.count('GET /_ropeline/events/spring-tour/queue/me');
  await poll(page, { ahead: 900 });
  await until('another poll', () => stub.count('GET /_ropeline/events/spring-tour/queue/me') > polls);
  assert.equal(await text(page, 'people'), 'about 640');
  await page.reload();
  await inState(page, 'waiting');
  assert.equal(await text(page, 'people'), 'about 640');
  assert.equal(await page.getAttribute('#progress', 'aria-valuenow'), '95');
  stub.place.number = 50001;
  await page.reload();
  await inState(page, 'waiting');
  assert.equal(await text(page, 'people'), 'about 900', 'another place starts anew');
});

test('the head of the line is told exactly', async () => {
  const page = await open();
  for (const [ahead, people, label] of [[87, '87', 'people ahead of you'], [1, '1', 'person ahead of you'], [0, 'You are next', '']]) {
    await poll(page, { ahead });
    await until(people, async () => await text(page, 'people') === people);
    assert.equal(await text(page, 'people-label'), label);
  }
});

test('an admitted visitor gets to the address that was asked for', async () => {
  const page = await open('/tickets/row/7?seat=3#map');
  await poll(page, { state: 'admitted', ahead: undefined });
  await page.waitForSelector('#site');
  assert.equal(await text(page, 'site'), '/tickets/row/7');
  assert.equal(page.url(), `${stub.url}/tickets/row/7?seat=3#map`);
});

test('the title and the screen reader say that it is the turn', async () => {
  stub.doorOpen = false;
  const page = await open();
  const seen = page.waitForFunction(() => document.title.startsWith('It is your turn') && document.getElementById('said').textContent.includes('It is your turn'));
  await poll(page, { state: 'admitted' });
  await seen;
});

test('a door that sends visitors back is noticed', async () => {
  stub.doorOpen = false;
  stub.place.state = 'admitted';
  const page = await open('/tickets/', 'stuck');
  assert.equal(await page.getAttribute('#enter', 'href'), `${stub.url}/tickets/`);
  assert.ok(await page.isVisible('#enter'));
  const loads = stub.count('GET /tickets/');
  assert.equal(loads, 4, 'three reloads, then no more');
});

test('the cacheable copy goes to a safe return address or to the entry', async () => {
  stub.place.state = 'admitted';
  for (const [query, want] of [
    ['?return=/tickets/row/9', '/tickets/row/9'], ['', '/tickets/'], ['?return=//evil.example', '/tickets/'],
    ['?return=/%5Cevil.example', '/tickets/'], ['?return=/%09/evil.example', '/tickets/'], ['?return=https://evil.example', '/tickets/'],
    ['?return=javascript:alert(1)', '/tickets/'], ['?return=/_ropeline/rooms/spring-tour/page', '/tickets/'],
  ]) {
    const page = await open(`/_ropeline/rooms/spring-tour/page${query}`, '');
    await page.waitForSelector('#site');
    assert.equal(page.url(), stub.url + want, query);
    await page.close();
  }
});

test('no address that Chromium reads as another host passes', async () => {
  const { readFile } = await import('node:fs/promises');
  const source = await readFile(new URL('../queue/wording.js', import.meta.url), 'utf8');
  const page = await open();
  const escaped = await page.evaluate(`(() => {
    ${source}
    const parts = ['/', '\\\\', '//', '.', '..', '@', ':', '%2f', '%5c', '%09', '\\t', '\\n', '\\r', '\\0', ' ', '?', '#', 'evil.example', 'a',
      'https:', 'javascript:', '\\u3000', '\\u2215', '\\uff0f', '\\ufe68', '\\u00ad', '[', ']', ';', '_ropeline'];
    let seed = 20271210, wrong = [];
    const random = n => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
    for (let i = 0; i < 100000; i++) {
      let path = random(4) ? '/' : '';
      for (let n = 1 + random(6); n; n--) path += parts[random(parts.length)];
      const address = safeReturn(path, location.origin);
      if (!address) continue;
      const link = document.createElement('a');
      link.href = address;
      if (link.origin !== location.origin || link.pathname.startsWith('//')) wrong.push(path);
    }
    return wrong;
  })()`);
  assert.deepEqual(escaped, []);
});

test('before the opening a countdown runs by the server’s clock', async () => {
  stub.skewMs = 2 * 3_600_000;
  stub.place = { state: 'before_opening', number: 17, opensAt: new Date(Date.now() + stub.skewMs + 600_000).toISOString(), pollAfterMs: 60_000, waiting: 900 };
  const page = await open('/tickets/', 'before_opening');
  assert.match(await text(page, 'countdown'), /^(09:5\d|10:0\d)$/);
  assert.match(await page.title(), /^Opens in (09:5|10:0)/);
  assert.equal(await page.isVisible('#ahead'), false);
  const first = await text(page, 'countdown');
  await until('the countdown moves', async () => await text(page, 'countdown') !== first);
  assert.equal(stub.count('GET /_ropeline/events/'), 0, 'the countdown asks nobody');
});

test('paused, holding and full keep the place and say why', async () => {
  const page = await open();
  await poll(page, { state: 'paused', reason: '<b>Storm</b> over the stage', etaSeconds: undefined });
  await inState(page, 'paused');
  assert.equal(await text(page, 'reason'), '<b>Storm</b> over the stage');
  assert.equal(await text(page, 'people'), 'about 12,000');
  assert.equal(await page.isVisible('#wait'), false);
  await poll(page, { state: 'holding', reason: undefined });
  await inState(page, 'holding');
  assert.equal(await page.isVisible('#reason-box'), false);
  await poll(page, { state: 'full' });
  await inState(page, 'full');
  assert.ok(await page.isVisible('#leave'));
  assert.match(await text(page, 'text'), /the line moves on/);
});

test('a closed room keeps a place, shows it and lets it be left', async () => {
  const page = await open();
  await poll(page, { state: 'closed', reason: 'See you tomorrow', etaSeconds: undefined });
  await inState(page, 'closed');
  const kept = 'Nobody is let in while the room is closed. Your place is kept; if it opens again, the line moves on.';
  assert.equal(await text(page, 'text'), kept);
  assert.equal(await text(page, 'said'), `This room is closed. ${kept}`);
  assert.equal(await text(page, 'reason'), 'See you tomorrow');
  assert.ok(await page.isVisible('#number'));
  assert.equal(await text(page, 'number'), '20,345');
  assert.ok(await page.isVisible('#leave'));
  await page.reload();
  await inState(page, 'closed');
  assert.equal(await text(page, 'text'), kept, 'also after a reload');
  await poll(page, { state: 'waiting' });
  await inState(page, 'waiting');
  await poll(page, { state: 'closed' });
  await inState(page, 'closed');
  stub.problem = { on: 'POST', status: 409, type: 'room-closed' };
  await page.click('#leave');
  await page.click('#leave-yes');
  await inState(page, 'left');
  await page.click('#again');
  await inState(page, 'closed');
  assert.match(await text(page, 'text'), /^Nobody can join at the moment/, 'no place, nothing kept');
  assert.equal(await page.isVisible('#leave'), false);
  assert.equal(await page.isVisible('#number'), false);
});

test('a closed room is told, and joined when it opens', async () => {
  stub.problem = { on: 'POST', status: 409, type: 'room-closed' };
  stub.status = { state: 'closed', reason: 'See you tomorrow' };
  await context.addInitScript(() => {
    const later = window.setTimeout;
    window.setTimeout = (run, ms) => later(run, ms > 30_000 ? 300 : ms);
  });
  const page = await open('/tickets/', 'closed');
  await until('the reason', async () => await text(page, 'reason') === 'See you tomorrow');
  await until('the status is looked at', () => stub.count('GET /_ropeline/events/spring-tour/status') >= 2);
  assert.equal(stub.count('POST'), 1, 'it does not knock while closed');
  assert.match(await text(page, 'text'), /^Nobody can join at the moment/);
  stub.status = { state: 'full' };
  await inState(page, 'full');
  assert.equal(await text(page, 'text'), 'Everything has been taken. If something comes free while this page is open, you join the line by yourself.');
  assert.equal(await page.isVisible('#leave'), false, 'there is no place to leave');
  stub.problem = null;
  stub.status = { state: 'open' };
  await inState(page, 'waiting');
});

test('whoever missed the turn can join again', async () => {
  const page = await open();
  await poll(page, { state: 'expired' });
  await inState(page, 'expired');
  stub.place.state = 'waiting';
  await page.click('#again');
  await inState(page, 'waiting');
  assert.equal(stub.count('POST'), 2);
});

test('leaving asks first', async () => {
  const page = await open();
  await page.click('#leave');
  assert.ok(await page.isVisible('#ask'));
  await page.keyboard.press('Escape');
  assert.equal(await page.isVisible('#ask'), false);
  assert.equal(stub.count('DELETE'), 0);
  await page.click('#leave');
  stub.problem = { on: 'DELETE', status: 503, type: 'redis-away' };
  await page.click('#leave-yes');
  await until('a failure is told', async () => /still have your place/.test(await text(page, 'ask-failed')));
  stub.problem = null;
  await page.click('#leave-yes');
  await inState(page, 'left');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'again');
  await page.click('#again');
  await inState(page, 'waiting');
});

test('a lost network is told and mended', async () => {
  const page = await open();
  await context.setOffline(true);
  await page.waitForSelector('#trouble:not([hidden])');
  assert.match(await text(page, 'trouble-what'), /offline. Your place is kept/);
  assert.equal(await text(page, 'people'), 'about 12,000', 'the last position stays');
  await leap(page, 3_600_000);
  await until('it says when it tries again', async () => /again in \d+ s/.test(await text(page, 'trouble-when')));
  await context.setOffline(false);
  await page.waitForSelector('#trouble', { state: 'hidden' });
  assert.equal(stub.count('POST'), 1, 'the place is polled, not joined again');
});

test('a dead server is asked less and less often', async () => {
  const page = await open();
  const tries = [];
  await page.route('**/queue/me', route => {
    tries.push(Date.now());
    return route.abort();
  });
  await leap(page, 3_600_000);
  await until('four tries', () => tries.length >= 4, 30_000);
  assert.ok(tries[3] - tries[2] > tries[1] - tries[0], `gaps: ${tries.map((at, i) => at - tries[i - 1])}`);
  await page.unroute('**/queue/me');
  await page.click('#try-now');
  await page.waitForSelector('#trouble', { state: 'hidden' });
});

test('what answers for the server is not believed', async () => {
  const page = await open();
  stub.plainText = true;
  await leap(page, 3_600_000);
  await page.waitForSelector('#trouble:not([hidden])');
  assert.equal(await text(page, 'people'), 'about 12,000');
});

test('Retry-After is honoured', async () => {
  stub.problem = { status: 503, type: 'redis-away', retryAfter: 4 };
  const from = Date.now();
  const page = await open('/tickets/', '');
  await page.waitForSelector('#trouble:not([hidden])');
  assert.equal(await page.isVisible('#try-now'), false);
  await page.evaluate(() => dispatchEvent(new Event('online')));
  await until('a second try', () => stub.count('POST') >= 2);
  assert.ok(Date.now() - from >= 4000, 'it came back too soon');
});

test('a newcomer is not told of a place while none is given out', async () => {
  stub.problem = { status: 503, type: 'redis-away', retryAfter: 1 };
  const page = await open('/tickets/', '');
  await page.waitForSelector('#trouble:not([hidden])');
  const away = 'We can’t give out places for a moment. Keep this page open: it keeps trying for you.';
  assert.equal(await text(page, 'trouble-what'), away);
  assert.equal(await text(page, 'said'), away);
  stub.problem = null;
  await inState(page, 'waiting');
  await page.waitForSelector('#trouble', { state: 'hidden' });
  assert.match(await text(page, 'said'), /^Connected again. You are in line/);
  stub.problem = { status: 503, type: 'redis-away', retryAfter: 30 };
  await leap(page, 3_600_000);
  await page.waitForSelector('#trouble:not([hidden])');
  assert.match(await text(page, 'trouble-what'), /very busy/, 'a poll');
  await page.reload();
  await page.waitForSelector('#trouble:not([hidden])');
  assert.match(await text(page, 'trouble-what'), /very busy/, 'a join by whoever had a place');
});

test('a place that the server no longer knows is joined anew', async () => {
  const page = await open();
  await poll(page, { ahead: 9000 });
  await until('a poll that worked', async () => await text(page, 'people') === 'about 9,000');
  stub.problem = { on: 'GET', status: 404, type: 'place-unknown' };
  await leap(page, 3_600_000);
  await until('a second join', () => stub.count('POST') === 2);
});

test('refused cookies are told, and nobody joins again and again', async () => {
  stub.cookies = false;
  stub.place.pollAfterMs = 1000;
  const page = await open('/tickets/', 'nocookies');
  assert.equal(stub.count('POST'), 1);
  stub.cookies = true;
  await page.click('#again');
  await inState(page, 'waiting');
});

test('what the visitor has to do first is told', async () => {
  for (const [status, type, state] of [[403, 'identity-required', 'signin'], [404, 'room-unknown', 'noroom'], [503, 'line-full', 'linefull']]) {
    stub.problem = { on: 'POST', status, type };
    const page = await open('/tickets/', state);
    assert.deepEqual(page.errors, []);
    await page.close();
  }
});

test('two tabs show one place, and go in together', async () => {
  const one = await open();
  const two = await open('/tickets/row/2');
  assert.equal(await text(two, 'number'), await text(one, 'number'));
  const polls = stub.count('GET /_ropeline/events/spring-tour/queue/me');
  await poll(one, { ahead: 300 });
  await until('the other tab hears of it', async () => await text(two, 'people') === 'about 300');
  assert.equal(stub.count('GET /_ropeline/events/spring-tour/queue/me'), polls + 1, 'one poll was enough');
  await poll(one, { state: 'admitted' });
  await Promise.all([one.waitForSelector('#site'), two.waitForSelector('#site')]);
  assert.equal(await text(two, 'site'), '/tickets/row/2');
});

test('leaving in one tab is seen in the other', async () => {
  const one = await open();
  const two = await open();
  await one.click('#leave');
  await one.click('#leave-yes');
  await inState(two, 'left');
});

test('a phone that wakes up asks at once', async () => {
  const page = await open();
  const polls = () => stub.count('GET /_ropeline/events/spring-tour/queue/me');
  await leap(page, 1000);
  assert.equal(polls(), 0, 'not before it is time');
  await leap(page, 120_000);
  await until('a poll', () => polls() === 1);
});

test('sound is off until asked for, and then heard', async () => {
  await context.addInitScript(() => {
    window.notes = 0;
    const start = OscillatorNode.prototype.start;
    OscillatorNode.prototype.start = function (at) {
      window.notes++;
      return start.call(this, at);
    };
  });
  stub.doorOpen = false;
  const page = await open();
  assert.equal(await page.getAttribute('#sound', 'aria-checked'), 'false');
  await page.click('#sound');
  assert.equal(await page.getAttribute('#sound', 'aria-checked'), 'true');
  assert.equal(await page.evaluate(() => window.notes), 2, 'switching it on lets hear it');
  await page.click('#sound');
  assert.equal(await page.getAttribute('#sound', 'aria-checked'), 'false');
  await page.click('#sound');
  const heard = page.waitForFunction(() => window.notes === 6);
  await poll(page, { state: 'admitted' });
  await heard;
});

test('nobody hears anything without asking', async () => {
  await context.addInitScript(() => {
    window.AudioContext = function () {
      document.title = 'a sound';
    };
  });
  stub.doorOpen = false;
  const page = await open();
  await poll(page, { state: 'admitted' });
  await inState(page, 'admitted');
  assert.match(await page.title(), /^It is your turn/);
});

test('the browser’s language is spoken, and can be switched', async () => {
  const vi = await browser.newContext({ locale: 'vi-VN' });
  const page = await vi.newPage();
  await page.goto(`${stub.url}/tickets/`);
  await inState(page, 'waiting');
  assert.equal(await page.getAttribute('html', 'lang'), 'vi');
  assert.equal(await text(page, 'people'), 'khoảng 12.000');
  assert.equal(await text(page, 'wait-range'), '10–25 phút');
  await page.click('#languages button');
  assert.equal(await page.getAttribute('html', 'lang'), 'en');
  assert.equal(await text(page, 'state'), 'You are in line');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Tiếng Việt');
  await page.reload();
  await inState(page, 'waiting');
  assert.equal(await page.getAttribute('html', 'lang'), 'en', 'the choice outlives a reload');
  await vi.close();
  const fr = await browser.newContext({ locale: 'fr-FR' });
  const other = await fr.newPage();
  await other.goto(`${stub.url}/tickets/`);
  await inState(other, 'waiting');
  assert.equal(await other.getAttribute('html', 'lang'), 'vi', 'the room’s first language for everybody else');
  await fr.close();
});

test('a room with one language has no switch', async () => {
  stub.room = 'vietnamese';
  const page = await open();
  assert.equal(await page.getAttribute('html', 'lang'), 'vi');
  assert.equal(await page.isVisible('#languages'), false);
});

test('a title is text whatever it holds', async () => {
  stub.room = 'hostile';
  const page = await open();
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.textContent('h1'), '</script></title><img src=x onerror="window.hacked=1"><!-- {{.}} & "q"');
  assert.equal(await page.locator('img').count(), 0);
  assert.deepEqual(page.errors, []);
});

test('a screen reader hears milestones, not every tick', async () => {
  await context.addInitScript(() => {
    window.heard = [];
    document.addEventListener('DOMContentLoaded', () => {
      new MutationObserver(() => window.heard.push(document.getElementById('said').textContent))
        .observe(document.getElementById('said'), { childList: true, characterData: true, subtree: true });
    });
  });
  const page = await open();
  for (let ahead = 12300; ahead > 11500; ahead -= 100) {
    await poll(page, { ahead });
  }
  await until('the last poll', async () => await text(page, 'people') !== 'about 12,300');
  const heard = await page.evaluate(() => window.heard.filter(Boolean));
  assert.ok(heard.length <= 2, heard.join(' / '));
  assert.match(heard.at(-1), /about 12,000 people ahead of you. Estimated wait: 10–25 minutes./);
});

test('the keyboard goes through the page in its order', async () => {
  const page = await open();
  const order = [];
  for (let i = 0; i < 3; i++) {
    await page.keyboard.press('Tab');
    order.push(await page.evaluate(() => document.activeElement.id || document.activeElement.lang));
  }
  assert.deepEqual(order, ['vi', 'sound', 'leave']);
});

test('nothing is cut off at 320 pixels', async () => {
  const page = await open();
  await page.setViewportSize({ width: 320, height: 640 });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 320));
});

test('the whole way works without JavaScript', async () => {
  const plain = await browser.newContext({ locale: 'en-GB', javaScriptEnabled: false });
  const page = await plain.newPage();
  await page.goto(`${stub.url}/tickets/`);
  assert.equal(await page.isVisible('.app'), false);
  await page.click('section[lang=en] button');
  assert.equal(page.url(), `${stub.url}/_ropeline/rooms/spring-tour/wait`);
  assert.match(await page.textContent('main'), /about 12,000/);
  await page.click('button:has-text("Leave the line")');
  assert.match(await page.textContent('main'), /You are not in line/);
  await page.click('button:has-text("Join the line")');
  assert.match(await page.textContent('main'), /about 12,000/);
  stub.place.state = 'admitted';
  await page.waitForSelector('#site');
  assert.equal(await text(page, 'site'), '/tickets/');
  await plain.close();
});

test('a script that does not run leaves the form', async () => {
  stub.broken = true;
  const page = await open('/tickets/', '');
  assert.ok(await page.isVisible('.plain'));
  assert.equal(await page.isVisible('.app'), false);
});

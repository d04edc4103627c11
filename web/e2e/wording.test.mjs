// The page's pure functions: the same table as the Go side's, and the return address against real attacks.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';

const read = name => readFile(new URL(name, import.meta.url), 'utf8');
const source = await read('../queue/wording.js');
const { peopleText, waitText, countdownText, safeReturn } =
  new Function(`${source}; return {peopleText, waitText, countdownText, safeReturn};`)();
const words = { en: JSON.parse(await read('../words/en.json')).page, vi: JSON.parse(await read('../words/vi.json')).page };
const tables = JSON.parse(await read('../testdata/wording.json'));

test('the script words numbers and waits as the server does', () => {
  for (const t of tables.people) assert.equal(peopleText(t.ahead, words[t.lang], t.lang), t.want, JSON.stringify(t));
  for (const t of tables.wait) assert.equal(waitText(t.low, t.high, words[t.lang], t.lang), t.want, JSON.stringify(t));
});

test('the countdown shows days, hours only when there are any', () => {
  assert.equal(countdownText(5, words.en, 'en'), '00:05');
  assert.equal(countdownText(3599, words.en, 'en'), '59:59');
  assert.equal(countdownText(3600, words.en, 'en'), '01:00:00');
  assert.equal(countdownText(86400 + 3661, words.en, 'en'), '1 day 01:01:01');
  assert.equal(countdownText(2 * 86400, words.vi, 'vi'), '2 ngày 00:00:00');
});

test('a return address stays on this host', () => {
  const origin = 'https://tickets.example';
  for (const path of ['/', '/tickets/', '/a/b?c=d&e=%2F%2Fevil.example', '/a#b', '/a:b@c', '/%2Fevil.example', '/vé/ghế', '/a//b']) {
    assert.ok(safeReturn(path, origin).startsWith(`${origin}/`), path);
  }
  for (const path of hostile()) assert.equal(safeReturn(path, origin), '', JSON.stringify(path));
});

function hostile() {
  return [
    null, undefined, '', ' ', '.', 'tickets', '?a', '#a', '//', '///', '////evil.example', '//evil.example', '/\\evil.example',
    '\\\\evil.example', '\\/evil.example', '/\t/evil.example', '/\n/evil.example', '/\r/evil.example', '\t//evil.example',
    ' //evil.example', '/ /evil.example', '/\u0000/evil.example', '/.//evil.example', '/..//evil.example', '/a/..//evil.example',
    '/%2e%2e//evil.example', '/./\\evil.example', '/a\\b', 'https://evil.example', 'https:evil.example', 'https:/evil.example',
    'HTTPS://evil.example', '//evil.example\\@tickets.example', '//tickets.example@evil.example', 'javascript:alert(1)',
    'JaVaScRiPt:alert(1)', 'java\tscript:alert(1)', '\u0001javascript:alert(1)', 'data:text/html,x', 'blob:x', 'vbscript:x',
    '〱//evil.example', '/_ropeline/rooms/spring-tour/page', '/_ROPELINE/', '/a/../_ropeline/events/x/queue', '/_ropeline',
  ];
}

// Starts Chromium for the tests, and the small tools that all of them use.
import { readFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const axeSource = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

// The first start on a cold disk has taken 42 s.
export const START_TIMEOUT = 120_000;

const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--autoplay-policy=user-gesture-required',
];

export function chromiumPath() {
  const places = [process.env.ROPELINE_CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
  const found = places.find(path => path && existsSync(path));
  if (!found) throw new Error('no Chromium: install it (Debian: apt-get install chromium) or set ROPELINE_CHROMIUM');
  return found;
}

export function launch() {
  return chromium.launch({ executablePath: chromiumPath(), args: FLAGS, timeout: START_TIMEOUT });
}

// watchErrors collects what a page must never have: script errors and refusals by its own policy.
export function watchErrors(page) {
  const errors = [];
  page.on('pageerror', err => errors.push(String(err)));
  page.on('console', message => {
    if (/Content.Security.Policy|Uncaught/i.test(message.text())) errors.push(message.text());
  });
  return errors;
}

// violations runs axe with the WCAG 2.2 AA rules and its best practices; it resolves to one line per violation.
export async function violations(page) {
  await page.evaluate(axeSource);
  const result = await page.evaluate(() => window.axe.run(document, {
    runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
  }));
  return result.violations.map(v => `${v.id}: ${v.help}: ${v.nodes.map(n => n.html).join(' | ')}`);
}

// until polls for a condition that the page reaches by itself; it fails after ten seconds, saying what for.
export async function until(what, condition, timeout = 10_000) {
  const end = Date.now() + timeout;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not in ${timeout} ms: ${what}`);
    await new Promise(resolve => setTimeout(resolve, 25));
  }
}

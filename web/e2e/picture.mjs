// Draws docs/img/queue-page.png for the README: the waiting page on two phones. Run by `npm run picture`.
import { mkdir } from 'node:fs/promises';
import { launch } from './browser.mjs';
import { Stub } from './stub.mjs';

const stub = await new Stub(process.env.ROPELINE_E2E_PAGES || new URL('pages', import.meta.url).pathname).start();
const browser = await launch();
const pictures = [];
for (const [scheme, locale] of [['light', 'en-GB'], ['dark', 'vi-VN']]) {
  const context = await browser.newContext({ viewport: { width: 360, height: 720 }, colorScheme: scheme, locale, timezoneId: 'Asia/Ho_Chi_Minh' });
  const page = await context.newPage();
  await page.addInitScript(() => sessionStorage.setItem('ropeline:spring-tour:place', '{"number":20345,"first":31000,"least":12345}'));
  await page.goto(`${stub.url}/tickets/`);
  await page.waitForSelector('#card[data-state=waiting]');
  await page.waitForTimeout(1000); // the progress bar gets there
  pictures.push((await page.screenshot()).toString('base64'));
  await context.close();
}
const sheet = await browser.newPage({ viewport: { width: 800, height: 772 } });
await sheet.setContent(`<style>body{margin:0;height:772px;background:#8fa39f;display:flex;gap:24px;justify-content:center;align-items:center}
  img{width:360px;border-radius:20px}</style>${pictures.map(p => `<img src="data:image/png;base64,${p}">`).join('')}`);
const to = new URL('../../docs/img/', import.meta.url).pathname;
await mkdir(to, { recursive: true });
await sheet.screenshot({ path: `${to}queue-page.png` });
await browser.close();
await stub.stop();

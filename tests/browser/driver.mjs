// A headless Chromium that does what it is told: a line of JSON in, a line of JSON out.
//
//   {"open": "file:///…", "width": 1280, "height": 800, "scheme": "dark", "script": false}
//   {"eval": "document.title"}  {"key": "+"}  {"click": "#in"}  {"choose": ["#group", "billing"]}
//   {"point": [x, y]}  {"press": [x, y]}  {"drag": [x, y, to_x, to_y]}  {"wheel": [x, y, by]}
//   {"picture": "FILE.png"}  {"paper": "FILE.pdf"}
//
// Each answer has "value", and what the page complained of and asked the network for since.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

// Packages are found beside the cached package.json, not beside this file.
const require = createRequire(process.argv[2] + '/');
const load = async name => (await import(pathToFileURL(require.resolve(name)))).default;
const chromium = await load('@sparticuz/chromium');
const puppeteer = await load('puppeteer-core');

const browser = await puppeteer.launch({
  args: chromium.args, executablePath: await chromium.executablePath(), headless: 'shell',
});
const page = await browser.newPage();
let complaints = [], requests = [], home = null;
page.on('console', message => { if (message.type() !== 'log') complaints.push(message.text()); });
page.on('pageerror', error => complaints.push(String(error)));
page.on('request', request => {  // a page from a server may ask that server for more
  if (!/^(file|blob|data):/.test(request.url()) && new URL(request.url()).origin !== home) requests.push(request.url());
});

const drawn = () => page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))));

const ACTS = {
  async open(url, { width = 1280, height = 800, scheme = 'light', script = true }) {
    await page.setJavaScriptEnabled(script);
    await page.setViewport({ width, height });
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
    await page.goto('about:blank');
    home = /^http:/.test(url) ? new URL(url).origin : null;
    await page.goto(url);
    if (script) await page.waitForSelector('html[data-ready], .failed', { timeout: 120000 });
  },
  eval: text => page.evaluate(text),
  key: key => page.keyboard.press(key),
  click: selector => page.click(selector),
  choose: ([selector, value]) => page.select(selector, value),
  point: ([x, y]) => page.mouse.move(x, y),
  press: ([x, y]) => page.mouse.click(x, y),
  async drag([x, y, toX, toY]) {
    await page.mouse.move(x, y);
    await page.mouse.down();
    await page.mouse.move(toX, toY, { steps: 4 });
    await page.mouse.up();
  },
  async wheel([x, y, by]) {
    await page.mouse.move(x, y);
    await page.keyboard.down('Control');
    await page.mouse.wheel({ deltaY: by });
    await page.keyboard.up('Control');
  },
  async picture(path) { await page.screenshot({ path }); },
  async paper(path) { await page.pdf({ path, format: 'A4', landscape: true }); },
};

console.log(JSON.stringify({ value: await browser.version() }));
for await (const line of createInterface({ input: process.stdin })) {
  const told = JSON.parse(line), [act] = Object.keys(told);
  let answer;
  try {
    answer = { value: (await ACTS[act](told[act], told)) ?? null };
    if (page.isJavaScriptEnabled()) await drawn();
  } catch (error) {
    answer = { error: String(error) };
  }
  console.log(JSON.stringify({ ...answer, complaints, requests }));
  complaints = []; requests = [];
}
await browser.close();

/** The page in a real Chromium: first useful paint, and a long conversation. Without Chromium, a row says so. */
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { median, ms, type Row } from "./part.ts";
import type { Site } from "./web-site.ts";
import { openChromium, type Tab, tabIn } from "../test/browser/chromium.ts";

const LOADS = 5;
const FRAMES = 120;
/** Rows of runs, or messages of a conversation. */
const USEFUL = ".row a, .block.is-text";
/** `shownAt`: milliseconds from the navigation until they were painted. */
const WATCH = `{
  const look = () => document.querySelector(${JSON.stringify(USEFUL)}) === null
    ? requestAnimationFrame(look)
    : requestAnimationFrame(() => setTimeout(() => { window.shownAt = performance.now(); }));
  look();
}`;
const SCROLL = `new Promise((done) => {
  const box = document.querySelector(".measured");
  const times = [];
  const step = (time) => {
    times.push(time);
    box.scrollTop += 300;
    if (times.length <= ${FRAMES}) requestAnimationFrame(step);
    else done(times.slice(1).map((one, at) => one - times[at]));
  };
  requestAnimationFrame(step);
})`;
const LAST_READ = `Math.max(...performance.getEntriesByType("resource")
  .filter(({ name }) => name.includes("/conversation?")).map(({ responseEnd }) => responseEnd))`;
/** So long after a part of the conversation, the page asks for no other. */
const SETTLED_MS = 1_000;

interface Seen {
  readonly handle: string;
  readonly runs: number;
  readonly events: number;
}

export async function measurePage(site: Site, { handle, runs, events }: Seen): Promise<readonly Row[]> {
  if (!existsSync("test/browser/node_modules"))
    return [
      {
        what: "web: first useful paint, conversation in the page",
        measured: "not measured: no Chromium",
        target: "npm run test:web installs it",
        ok: true,
      },
    ];
  const browser = await openChromium();
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    const tab = await tabIn(context);
    await tab.addInitScript({ content: WATCH });
    const link = site.reprise("web", "link").trim();
    await tab.goto(link);
    await tab.getByRole("heading", { name: "Inbox" }).first().waitFor();
    const at = (path: string) => `${link.split("/#")[0] ?? ""}${path}`;
    const paints = await loads(tab, at("/runs"));
    const opens = await loads(tab, at(`/runs/${handle}`));
    const whole = await wholeRead(tab);
    const frames = await tab.evaluate<readonly number[]>(SCROLL);
    return [
      paint(`web: first useful paint of ${runs} runs`, paints, 500),
      paint(`web: a conversation of ${events} events opens in the page`, opens, 1_000),
      {
        what: "web: all of it is read by the page",
        ...{ measured: ms(whole), target: "–", ok: true },
      },
      {
        what: `web: frame while it scrolls, of ${frames.length}`,
        measured: `p50 ${ms(median(frames))}`,
        ...{ target: "60 a second", ok: median(frames) <= 17 },
      },
    ];
  } finally {
    await browser.close();
  }
}

/** Milliseconds from each navigation to the first paint of something useful. */
async function loads(tab: Tab, url: string): Promise<readonly number[]> {
  const times: number[] = [];
  for (let at = 0; at < LOADS; at += 1) {
    await tab.goto(url);
    await tab.waitForFunction(() => "shownAt" in globalThis);
    times.push(await tab.evaluate<number>("shownAt"));
  }
  return times;
}

/** Milliseconds from the navigation until the page had the last part of the conversation. */
async function wholeRead(tab: Tab): Promise<number> {
  for (;;) {
    const [now, last] = await tab.evaluate<[number, number]>(`[performance.now(), ${LAST_READ}]`);
    if (now - last > SETTLED_MS) return last;
    await sleep(SETTLED_MS / 10);
  }
}

function paint(what: string, times: readonly number[], most: number): Row {
  const measured = `${ms(median(times))} (fastest ${ms(Math.min(...times))})`;
  return { what, measured, target: `≤ ${most} ms`, ok: median(times) <= most };
}

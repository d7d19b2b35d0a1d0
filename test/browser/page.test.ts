/** The page in a real Chromium: every screen at two sizes and in two schemes, and what a person does with it. */
import { mkdirSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { until } from "../e2e/sandbox.ts";
import { WebBox } from "../web/web-box.ts";
import {
  type Browser,
  complaintsOf,
  type Context,
  openChromium,
  type Tab,
  tabIn,
  violationsIn,
} from "./chromium.ts";

const SHOTS = "test/browser/.cache/shots";
const DESKTOP = { width: 1280, height: 800 };
const PHONE = { width: 360, height: 740 };
const HOSTILE = `<img src=x onerror="window.hit=1"><script>window.hit=1</script> [a](javascript:window.hit=1) \u202e ![b](http://127.0.0.1:1/x.png)`;

let browser: Browser;
let box: WebBox;
let handle: string;

beforeAll(async () => {
  mkdirSync(SHOTS, { recursive: true });
  browser = await openChromium();
  box = new WebBox();
  await box.run(["start", "demo", "remember 4711"]);
  ({ handle } = (await box.json<{ runs: { handle: string }[] }>(["list"])).runs[0] ?? { handle: "" });
  await box.run(["resume", handle, "what was the number?"]);
  await box.run(["start", "demo", HOSTILE, "--name", HOSTILE.slice(0, 60)]);
  await box.serve();
});

afterAll(async () => {
  await browser?.close();
  await box?.[Symbol.asyncDispose]();
});

/** Signed in, in a new browser profile. */
async function signedIn(
  options: object = {},
): Promise<{ context: Context; tab: Tab; complaints: string[]; at: (path: string) => string }> {
  const context = await browser.newContext({ viewport: DESKTOP, ...options });
  const tab = await tabIn(context);
  const complaints = complaintsOf(tab);
  const link = (await box.run(["web", "link"])).stdout.trim();
  await tab.goto(link);
  await tab.getByRole("heading", { name: "Inbox" }).first().waitFor();
  const base = link.split("/#")[0] ?? "";
  return { context, tab, complaints, at: (path) => `${base}${path}` };
}

describe("signing in", () => {
  test("a link signs in once, leaves no token in the address, and the session survives a reload", async () => {
    const context = await browser.newContext();
    const tab = await tabIn(context);
    const link = (await box.run(["web", "link"])).stdout.trim();
    await tab.goto(link);
    await tab.getByRole("heading", { name: "Inbox" }).first().waitFor();
    expect(tab.url()).not.toContain("#");
    await tab.reload();
    await tab.getByRole("heading", { name: "Inbox" }).first().waitFor();
    const other = await browser.newContext();
    const late = await tabIn(other);
    await late.goto(link);
    await late.getByRole("heading", { name: "Signed out" }).waitFor();
    await context.close();
    await other.close();
  });
});

const SCREENS = () =>
  [
    ["inbox", "/"],
    ["runs", "/runs"],
    ["run", `/runs/${handle}`],
    ["attempts", `/runs/${handle}/attempts`],
    ["changes", `/runs/${handle}/changes`],
    ["replay", `/runs/${handle}/replay/1`],
    ["agents", "/agents"],
    ["batches", "/batches"],
    ["reviews", "/reviews"],
    ["usage", "/usage"],
    ["search", "/search?q=4711"],
    ["doctor", "/doctor"],
  ] as const;

describe.each([
  ["desktop, light", { viewport: DESKTOP, colorScheme: "light" }],
  ["phone, dark", { viewport: PHONE, colorScheme: "dark", hasTouch: true }],
])("%s", (name, options) => {
  test("every screen has no violation of axe, no error and no violation of the policy", async () => {
    const { context, tab, complaints, at } = await signedIn(options);
    const found: string[] = [];
    for (const [screen, path] of SCREENS()) {
      await tab.goto(at(path));
      await tab.locator("main h1").first().waitFor();
      await tab.waitForFunction(() => document.querySelector(".skeleton") === null);
      for (const violation of await violationsIn(tab)) found.push(`${screen}: ${violation}`);
      const wide = await tab.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      if (wide > 0) found.push(`${screen}: ${wide} px wider than the window`);
      await tab.screenshot({ path: `${SHOTS}/${screen}-${name.replaceAll(/\W+/g, "-")}.png` });
    }
    expect(found).toEqual([]);
    expect(complaints).toEqual([]);
    await context.close();
  });
});

describe("a person", () => {
  test("starts a run, sees it crash, resumes it by click and reads the receipt", async () => {
    const { context, tab, at } = await signedIn();
    await tab.goto(at("/runs?new=1"));
    await tab.getByLabel("Task for the agent").fill("remember 8642");
    await tab.getByLabel("Engine", { exact: true }).selectOption("demo");
    await tab.getByLabel("Folder", { exact: true }).fill(box.cwd);
    await tab.getByRole("button", { name: "Start", exact: true }).click();
    await until("the run has its page", () => /\/runs\/[0-9a-f]{8}$/.test(tab.url()) || null);
    const run = tab.url().slice(-8);
    await until("its first turn is over", () => box.holder(run) === null || null);
    const message = tab.getByRole("textbox", { name: "Message to the agent" });
    const starts = () => box.journalEntries().filter(({ event }) => event === "start");
    const before = starts().length;
    await message.fill("@@hang");
    await tab.getByRole("button", { name: "Resume", exact: true }).click();
    const agent = await until("the agent lives", () => starts()[before]?.["pid"] as number | undefined);
    await until("the second attempt has a holder", () => box.holder(run));
    process.kill(box.pid(run), "SIGKILL");
    process.kill(agent, "SIGKILL");
    await tab.getByText("interrupted").first().waitFor();
    await message.fill("what was the number?");
    await tab.getByRole("button", { name: "Resume", exact: true }).click();
    await tab.getByText("8642").first().waitFor();
    await until("the third attempt has ended", () => box.holder(run) === null || null);
    const receipts = tab.getByText("Same conversation, proven");
    await receipts.first().waitFor();
    await tab.screenshot({ path: `${SHOTS}/receipt.png` });
    const { history } = await box.json<{ history: { receipt: { verified: string } | null }[] }>([
      "show",
      run,
    ]);
    expect(history.map(({ receipt }) => receipt?.verified ?? null).at(-1)).toBe("engine_reported");
    expect(history.length).toBe(3);
    await context.close();
  });

  test("takes control of a live terminal and types", async () => {
    const run = await box.detach("claude");
    const { context, tab, complaints, at } = await signedIn();
    await tab.goto(at(`/runs/${run}/terminal`));
    await tab.getByText("View only.").waitFor();
    await tab.getByRole("button", { name: "Take control" }).click();
    await tab.getByText("You have control.").waitFor();
    await tab.keyboard.type("typed in the page");
    await until("the UI shows it", () => box.tape(run).includes("typed in the page") || null);
    await tab.screenshot({ path: `${SHOTS}/terminal.png` });
    expect(complaints).toEqual([]);
    await context.close();
    await box.run(["stop", run]);
  });

  test("sees that the connection is lost, and two pages see a change at once", async () => {
    const one = await signedIn();
    const two = await signedIn();
    await one.tab.goto(one.at("/runs"));
    await two.tab.goto(two.at("/runs"));
    await one.tab.locator("main h1").first().waitFor();
    await box.run(["start", "demo", "a change for both"]);
    for (const { tab } of [one, two]) await tab.getByText("a change for both").first().waitFor();
    await box.stopServer("SIGKILL");
    await one.tab
      .getByText(/Connection lost/)
      .first()
      .waitFor();
    await box.serve();
    await one.context.close();
    await two.context.close();
  });

  test("does everything by keyboard", async () => {
    const { context, tab, at } = await signedIn();
    await tab.goto(at("/runs"));
    await tab.locator("main h1").first().waitFor();
    await tab.keyboard.press("Control+k");
    await tab.getByRole("dialog").first().waitFor();
    await tab.keyboard.type("usage");
    await tab.keyboard.press("Enter");
    await tab.getByRole("heading", { name: "Usage" }).first().waitFor();
    await context.close();
  });
});

test("on a phone, the words of a limit do not overlap", async () => {
  const resetsAt = new Date(Date.now() + 21_600_000).toISOString();
  await box.run(["start", "demo", `port the docs @@429:reset=${resetsAt}`]);
  const { context, tab } = await signedIn({ viewport: PHONE });
  await tab.getByRole("heading", { name: "Limits" }).waitFor();
  const overlaps = await tab.evaluate(() =>
    [...document.querySelectorAll("li.line-card")].flatMap((card) => {
      const boxes = [...card.children].map((part) => {
        const words = document.createRange();
        words.selectNodeContents(part);
        return { text: part.textContent, box: words.getBoundingClientRect() };
      });
      return boxes.flatMap((one, at) =>
        boxes
          .slice(at + 1)
          .filter(
            ({ box: b }) =>
              one.box.left < b.right &&
              b.left < one.box.right &&
              one.box.top < b.bottom &&
              b.top < one.box.bottom,
          )
          .map((other) => `${one.text} | ${other.text}`),
      );
    }),
  );
  expect(overlaps).toEqual([]);
  await context.close();
});

describe("attacks that need a browser", () => {
  test("21, 23, 24: hostile text in messages, names and answers is text", async () => {
    const { context, tab, complaints, at } = await signedIn();
    const { runs } = await box.json<{ runs: { handle: string; name: string | null }[] }>(["list"]);
    const hostile = runs.find(({ name }) => name?.startsWith("<img") === true)?.handle ?? "";
    for (const path of ["/", "/runs", `/runs/${hostile}`, `/runs/${hostile}/replay/1`, "/search?q=onerror"]) {
      await tab.goto(at(path));
      await tab.locator("main h1").first().waitFor();
      await tab.waitForFunction(() => document.querySelector(".skeleton") === null);
      expect([path, await tab.evaluate(() => (window as { hit?: number }).hit ?? 0)]).toEqual([path, 0]);
      expect([path, await tab.locator("main img").count()]).toEqual([path, 0]);
      expect([path, await tab.locator('a[href^="javascript"]').count()]).toEqual([path, 0]);
    }
    expect(complaints).toEqual([]);
    await context.close();
  });

  test("3: a page under another name that leads to this machine gets nothing", async () => {
    const rebound = await openChromium("--host-resolver-rules=MAP evil.test 127.0.0.1");
    const tab = await tabIn(await rebound.newContext());
    expect((await tab.goto(`http://evil.test:${box.url.port}/`))?.status()).toBe(421);
    await rebound.close();
  });

  test("10, 15, 20: a page of another port reads nothing and writes nothing, although it gets the cookie", async () => {
    const { context, tab } = await signedIn();
    const seen: string[] = [];
    const other = createServer((request, response) => {
      seen.push(request.headers.cookie ?? "");
      response.setHeader("Content-Type", "text/html");
      response.end("<!doctype html><title>other</title>");
    }).listen(0, "127.0.0.1");
    try {
      await until("the other server listens", () => other.address());
      const { hostname } = new URL(tab.url());
      const { port } = other.address() as AddressInfo;
      await tab.goto(`http://${hostname === "127.0.0.1" ? hostname : "127.0.0.1"}:${port}/`);
      const origin = box.origin;
      const results = await tab.evaluate<string[]>(`(async () => {
        const tries = [
          () => fetch("${origin}/api/v1/runs", { credentials: "include" }).then((r) => r.text()),
          () => fetch("${origin}/api/v1/runs", { method: "POST", mode: "no-cors", credentials: "include", body: "{}" }).then((r) => r.type === "opaque" ? "opaque" : r.text()),
          () => new Promise((done, fail) => { const s = document.createElement("script"); s.src = "${origin}/api/v1/runs"; s.onload = () => done("loaded"); s.onerror = () => fail("refused"); document.head.append(s); }),
          () => new Promise((done, fail) => { const w = new WebSocket("${origin.replace("http", "ws")}/api/v1/live"); w.onopen = () => done("opened"); w.onerror = () => fail("refused"); }),
        ];
        return Promise.all(tries.map((attempt) => attempt().catch(() => "refused")));
      })()`);
      expect(results.map((result) => (result === "opaque" ? "refused" : result))).toEqual(
        Array(4).fill("refused"),
      );
    } finally {
      other.close();
      await context.close();
    }
  });
});

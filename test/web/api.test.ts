/** The API as a script uses it: what each route answers, and that every write happens once. */
import { createHash } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { until } from "../e2e/sandbox.ts";
import { WebBox } from "./web-box.ts";

let box: WebBox;
let bearer: Record<string, string>;
let handle: string;

beforeAll(async () => {
  box = new WebBox();
  await box.run(["start", "demo", "remember 4711"]);
  await box.serve();
  bearer = { authorization: `Bearer ${await box.token("--name", "test")}` };
  handle = (await get("/runs"))["runs"][0].handle;
});

afterAll(() => box[Symbol.asyncDispose]());

async function get(path: string): Promise<Record<string, any>> {
  const { body, status } = await box.ask(`/api/v1${path}`, { headers: bearer });
  expect([path, status, body["ok"]]).toEqual([path, 200, true]);
  return body;
}

const post = (path: string, body: object, key?: string) =>
  box.ask(`/api/v1${path}`, {
    ...{ method: "POST", body },
    headers: { ...bearer, ...(key === undefined ? {} : { "idempotency-key": key }) },
  });

const starts = () => box.journalEntries().filter(({ event }) => event === "start").length;
const ended = (run: string) => until(`run ${run} has ended`, () => box.holder(run) === null || null);

test("a list of runs has rows with title, state and folder, and is read in parts", async () => {
  const { runs, next } = await get("/runs?limit=1");
  expect(runs[0]).toMatchObject({
    handle,
    agentName: "demo",
    status: "completed",
    title: "remember 4711",
    cwd: box.cwd,
  });
  expect(runs[0].tokens).toBeGreaterThan(0);
  const rest = await get(`/runs?limit=500&after=${next}`);
  expect(rest["runs"].some((row: any) => row.handle === runs[0].handle)).toBe(false);
  expect((await box.ask("/api/v1/runs?after=nonsense", { headers: bearer })).status).toBe(400);
});

test("a run has the record that `show --json` prints", async () => {
  const shown = await box.json(["show", handle]);
  expect(await get(`/runs/${handle}`)).toMatchObject({ ...shown, title: "remember 4711" });
});

test("a start happens once, however often it is asked for", async () => {
  const wish = { engine: "demo", message: "from a script", cwd: box.cwd, name: "nightly", tags: ["a", "b"] };
  const before = starts();
  const answers = await Promise.all([1, 2, 3].map(() => post("/runs", wish, "same-key-1")));
  expect(answers.map(({ status }) => status)).toEqual([201, 201, 201]);
  expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
  const run = String(answers[0]?.body["handle"]);
  expect(await box.json(["show", run])).toMatchObject({ name: "nightly", tags: ["a", "b"], cwd: box.cwd });
  await ended(run);
  expect(starts()).toBe(before + 1);
  const other = await post("/runs", { ...wish, message: "something else" }, "same-key-1");
  expect([other.status, other.body["error"].code]).toEqual([400, "usage"]);
});

test("a resume continues the conversation, and two pages cannot resume the same state", async () => {
  const { attempts } = await get(`/runs/${handle}`);
  const both = await Promise.all(
    ["resume-key-1", "resume-key-2"].map((key) =>
      post(`/runs/${handle}/resume`, { message: "what was it?", attempt: attempts }, key),
    ),
  );
  expect(both.map(({ status }) => status).toSorted()).toEqual([200, 409]);
  await ended(handle);
  const { history, status } = await get(`/runs/${handle}`);
  expect([history.length, status]).toEqual([attempts + 1, "completed"]);
  expect(history.at(-1).receipt).toMatchObject({ verified: "engine_reported" });
  const { events } = await get(`/runs/${handle}/conversation`);
  expect(events.map((event: any) => event.text ?? "").join("")).toContain("4711");
});

test("events, output, timing, receipt and changes of an attempt", async () => {
  const { receipt } = await get(`/runs/${handle}/attempts/2/receipt`);
  expect(receipt.reported).toBe(receipt.asked);
  expect((await get(`/runs/${handle}/attempts/1/timing`))["lines"].length).toBeGreaterThan(0);
  const events = await get(`/runs/${handle}/attempts/1/events`);
  expect(events["done"]).toBe(true);
  const whole = await box.ask(`/api/v1/runs/${handle}/attempts/1/output`, { headers: bearer });
  const hash = (text: string | Buffer) => createHash("sha256").update(text).digest("hex");
  expect(hash(whole.text)).toBe(hash(box.tape(handle)));
  const part = await box.ask(`/api/v1/runs/${handle}/attempts/1/output?from=10&limit=5`, { headers: bearer });
  expect([part.text, part.headers["reprise-total"]]).toEqual([
    box.tape(handle).subarray(10, 15).toString(),
    String(box.tape(handle).length),
  ]);
  expect(await get(`/runs/${handle}/diff`).catch((error: unknown) => error)).toBeDefined();
  const none = await box.ask(`/api/v1/runs/${handle}/attempts/99/receipt`, { headers: bearer });
  expect([none.status, none.body["error"].code]).toEqual([404, "attempt_unknown"]);
});

test("refusals are the faults of the commands", async () => {
  const faults = [
    ["/runs", { engine: "nope", message: "x", cwd: box.cwd }, 400, "engine_unknown"],
    ["/runs", { engine: "demo", message: " ", cwd: box.cwd }, 400, "message_invalid"],
    ["/runs", { engine: "demo", message: "x", cwd: "project" }, 400, "cwd_invalid"],
    ["/runs", { engine: "demo", message: "x", cwd: `${box.cwd}/none` }, 400, "cwd_invalid"],
    ["/runs", { engine: "demo", message: "x", cwd: box.cwd, name: "-x" }, 400, "usage"],
    ["/runs/00000000/resume", { message: "x" }, 404, "handle_unknown"],
    ["/runs/00000000/stop", {}, 404, "handle_unknown"],
    [`/runs/${handle}/message`, { message: "x" }, 409, "run_busy"],
    ["/decisions/00000000-1", { choice: 1 }, 404, "handle_unknown"],
  ] as const;
  for (const [path, body, status, code] of faults) {
    const answer = await post(path, body);
    expect([path, answer.status, answer.body["error"]?.code]).toEqual([path, status, code]);
  }
});

test("rename, fork and stop", async () => {
  expect((await post(`/runs/${handle}/rename`, { name: "cart" })).body).toMatchObject({
    ok: true,
    name: "cart",
  });
  const forked = await post(`/runs/${handle}/fork`, { message: "another way" }, "fork-key-1");
  const again = await post(`/runs/${handle}/fork`, { message: "another way" }, "fork-key-1");
  expect([forked.status, forked.body["parent"], again.text]).toEqual([201, handle, forked.text]);
  await ended(String(forked.body["handle"]));
  const hanging = String(
    (await post("/runs", { engine: "demo", message: "@@hang", cwd: box.cwd })).body["handle"],
  );
  expect((await post(`/runs/${hanging}/stop`, {})).body).toMatchObject({ ok: true });
  expect((await get(`/runs/${hanging}`))["status"]).not.toBe("running");
});

test("inbox, agents, pipelines, batches, reviews, usage, search, doctor and engines answer", async () => {
  const inbox = await get("/inbox");
  expect(inbox["ended"].some((row: any) => row.handle === handle)).toBe(true);
  const found = (await get("/search?q=4711"))["results"] as { handle: string }[];
  expect(found.some((hit) => hit.handle === handle)).toBe(true);
  expect((await get("/usage?by=engine"))["groups"][0].key).toBe("demo");
  expect((await get("/engines"))["engines"].find((engine: any) => engine.id === "demo").found).toBe(true);
  for (const path of [
    "/agents",
    "/pipelines",
    "/status",
    "/batches",
    "/reviews",
    "/doctor",
    "/decisions",
    "/scheduled",
  ])
    await get(path);
});

test("a page hears of changes, and of growing conversations", async () => {
  using socket = await box.socket("/api/v1/live", bearer).opened();
  await socket.heard(({ ready }) => ready === true);
  for (const topic of ["runs", "inbox", `run/${handle}`, `conversation/${handle}`])
    socket.say({ sub: topic });
  await socket.heard(({ topic, run }) => topic === `run/${handle}` && run !== undefined);
  const { attempts } = await get(`/runs/${handle}`);
  await post(`/runs/${handle}/resume`, { message: "again" });
  const isNow = (row: any) =>
    row.handle === handle && row.attempts === attempts + 1 && row.status === "completed";
  await socket.heard(({ topic, rows }) => topic === "runs" && rows.some(isNow));
  await socket.heard(({ topic, run }) => topic === `run/${handle}` && isNow(run));
  await socket.heard(({ topic }) => topic === "inbox");
  await socket.heard(
    ({ topic, events }) =>
      topic === `conversation/${handle}` &&
      events.some((event: any) => event.n === attempts + 1 && event.type === "turn_ended"),
  );
});

test("a script hears of changes as server-sent events", async () => {
  const heard = new AbortController();
  const response = await fetch(`${box.origin}/api/v1/events`, { headers: bearer, signal: heard.signal });
  let text = "";
  const reading = (async () => {
    for await (const chunk of response.body ?? []) text += Buffer.from(chunk).toString();
  })().catch(() => {});
  await until("the stream is open", () => text.includes("event: ready"));
  const started = await post("/runs", { engine: "demo", message: "hi", cwd: box.cwd });
  await until("the run shows", () => text.includes(String(started.body["handle"])));
  heard.abort();
  await reading;
});

test("a terminal shows a live UI, obeys the page that took control, and is not resized by watching", async () => {
  const run = await box.detach("claude");
  using one = await box.socket(`/api/v1/runs/${run}/terminal`, bearer).opened();
  const ready = await one.heard((message) => message["ready"] === true);
  expect(ready).toMatchObject({ size: { cols: 120, rows: 40 }, control: false });
  one.say({ keys: "not heard\r" });
  one.say({ resize: { cols: 50, rows: 20 } });
  using two = await box.socket(`/api/v1/runs/${run}/terminal`, bearer).opened();
  expect(await two.heard((message) => message["ready"] === true)).toMatchObject({
    size: { cols: 120, rows: 40 },
  });
  one.say({ control: true });
  await one.heard((message) => message["control"] === true);
  two.say({ control: true });
  await two.heard((message) => message["control"] === true);
  await one.heard((message) => message["control"] === false && message["why"] !== undefined);
  two.say({ resize: { cols: 90, rows: 30 } });
  expect(await one.heard((message) => message["size"]?.cols === 90)).toEqual({
    size: { cols: 90, rows: 30 },
  });
  two.say({ keys: "hello from the page\r" });
  await until("the words are on the screen", () => one.bytes.includes("hello from the page") || null);
  expect(one.bytes.includes("not heard")).toBe(false);
  await box.run(["stop", run]);
  await one.heard((message) => message["ended"] === true);
});

test("a second server of the same state directory prints a link of the first", async () => {
  const second = await box.json(["web", "--no-open"]);
  expect(new URL(second["url"]).port).toBe(box.url.port);
  expect(await box.signIn(String(second["link"]).split("#t=")[1])).toMatchObject({});
});

test("the server runs in the background, and stops when asked", async () => {
  await using other = new WebBox();
  const started = await other.json(["web", "--detach", "--no-open"]);
  try {
    expect((await fetch(started["url"])).status).toBe(200);
    expect((await other.run(["web", "link"])).stdout).toContain("#t=");
  } finally {
    expect(await other.json(["web", "stop"])).toMatchObject({ ok: true, stopped: true, pid: started["pid"] });
  }
  await expect(fetch(started["url"])).rejects.toThrow();
  expect((await other.run(["web", "link"])).stderr).toContain("The web server is not running.");
});

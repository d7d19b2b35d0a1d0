/**
 * `reprise web` with 10,000 runs: start, memory, how soon a change reaches open pages, a long conversation, terminals,
 * and the page in a real Chromium if `npm run test:web` has installed one. BENCH_RUNS, BENCH_AGENTS, BENCH_CHANGES,
 * BENCH_EVENTS and BENCH_MB make it smaller. Beside times stands processor time, which depends less on other load.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { WebSocket } from "ws";
import { type Store, openStore } from "../src/store/store.ts";
import { against, median, mib, ms, type Part, quantile, residentBytes, type Row, sampleRun } from "./part.ts";
import { measurePage } from "./web-page.ts";
import { Printer, processorTime, Site, until } from "./web-site.ts";

const RUNS = Number(process.env["BENCH_RUNS"] ?? 10_000);
const AGENTS = Number(process.env["BENCH_AGENTS"] ?? 100);
const CHANGES = Number(process.env["BENCH_CHANGES"] ?? 100);
const EVENTS = Number(process.env["BENCH_EVENTS"] ?? 20_000);
const MEGABYTES = Number(process.env["BENCH_MB"] ?? 50);
const PAGES = 10;
const STARTS = 5;
const OLD = 3;
const ROUNDS = 3;
const FIRST_PAGE = "/runs?limit=100";
/** Nobody waits longer for a change: it counts as lost. */
const LOST_MS = 3_000;

export const web: Part = async (progress) => {
  await using site = new Site();
  progress(`writing ${RUNS} runs`);
  await using store = await openStore(join(site.state, "index.db"));
  for (let at = 0; at < RUNS; at += 1) await store.createRun(sampleRun(site.state, at));
  progress("idle daemon");
  const idle = await idleDaemon(site);
  const rows: Row[] = [];
  const parts: Record<string, () => Promise<readonly Row[]>> = {
    start: () => starts(site),
    changes: () => changes(site, store, idle),
    conversation: () => conversation(site),
    terminal: () => terminal(site),
    "stuck page": () => stuckPage(site),
  };
  for (const [what, measure] of Object.entries(parts)) {
    progress(what);
    rows.push(...(await measure()));
  }
  return rows;
};

/** Its resident bytes. */
async function idleDaemon(site: Site): Promise<number> {
  site.reprise("daemon", "start");
  const { pid } = JSON.parse(site.reprise("daemon", "status", "--json")) as { pid: number };
  await sleep(2_000);
  const bytes = residentBytes(pid);
  site.reprise("daemon", "stop");
  return bytes;
}

async function starts(site: Site): Promise<readonly Row[]> {
  const times: number[] = [];
  const used: number[] = [];
  for (let at = 0; at < STARTS; at += 1) {
    await site.stopServer();
    times.push(await site.serve(FIRST_PAGE));
    used.push(processorTime(site.pid));
  }
  const [lists, listed] = await worked(site, async () => {
    for (let at = 0; at < 20; at += 1) await site.get(FIRST_PAGE);
  });
  return [
    row("web: start until GET /runs?limit=100 is answered", {
      measured: `${ms(median(times))} (processor ${ms(median(used))})`,
      ...{ target: "–", ok: true },
    }),
    row(`web: GET /runs?limit=100 of ${RUNS}`, {
      measured: `${ms(lists / 20)} (processor ${ms(listed / 20)})`,
      ...{ target: "–", ok: true },
    }),
  ];
}

/** Milliseconds that passed, and of the server's processor time. */
async function worked(site: Site, work: () => Promise<unknown>): Promise<[passed: number, used: number]> {
  const [begin, before] = [performance.now(), processorTime(site.pid)];
  await work();
  return [performance.now() - begin, processorTime(site.pid) - before];
}

/** Live runs and runs of late get a name in turn, then old runs; every page ought to hear of each. */
async function changes(site: Site, store: Store, idle: number): Promise<readonly Row[]> {
  const live = Array.from({ length: AGENTS }, () => site.detach("demo", "work @@hang"));
  const sockets = await Promise.all(Array.from({ length: PAGES }, () => site.socket("/live")));
  const ears = new Map<string, (time: number) => void>();
  for (const ws of sockets) hearNames(ws, (name) => ears.get(name)?.(performance.now()));
  for (const ws of sockets) ws.send(JSON.stringify({ sub: "runs" }));
  for (let after = ""; after !== "end";) {
    const page = await site.get(`/runs?limit=500${after}`);
    after = page["next"] === null ? "end" : `&after=${String(page["next"])}`;
  }
  await sleep(1_000);
  const [passed, quiet] = await worked(site, () => sleep(5_000));
  const delays: number[] = [];
  const before = processorTime(site.pid);
  for (let at = 0; at < CHANGES; at += 1) {
    const recent = sampleRun(site.state, RUNS - 1 - (at % 20)).handle;
    const handle = at % 2 === 0 ? (live[at % live.length] ?? recent) : recent;
    delays.push(...(await renamed(store, handle, { name: `change-${at}`, ears })));
    // Not in step with the server's clock.
    await sleep(20 + ((at * 37) % 100));
  }
  const used = (processorTime(site.pid) - before) / CHANGES;
  const old: number[] = [];
  for (let at = 0; at < OLD; at += 1)
    old.push(...(await renamed(store, sampleRun(site.state, at).handle, { name: `old-${at}`, ears })));
  const memory = residentBytes(site.pid) - idle;
  for (const ws of sockets) ws.terminate();
  for (const handle of live) site.reprise("stop", handle);
  const [p99, lost] = [quantile(delays, 0.99), delays.filter((delay) => delay >= LOST_MS).length];
  const shown = old.filter((delay) => delay < LOST_MS).length;
  const where = `${AGENTS} live agents, ${PAGES} pages`;
  return [
    row(`web: memory above an idle daemon, ${RUNS} runs, ${PAGES} pages`, {
      measured: `${mib(memory)} (the daemon has ${mib(idle)})`,
      ...{ target: "≤ 60 MB", ok: memory <= 60e6 },
    }),
    row(`web: a change shows, ${where}`, {
      measured: `p50 ${ms(median(delays))}, p99 ${ms(p99)} of ${delays.length}, ${lost} lost (processor ${ms(used)} each)`,
      ...{ target: "p99 ≤ 200 ms", ok: p99 <= 200 },
    }),
    row("web: a new name of a run that is not among the last 50 shows", {
      ...{ measured: `${shown} of ${old.length}`, target: "all", ok: shown === old.length },
    }),
    row(`web: processor while nothing happens, ${where}`, {
      measured: `${((quiet / passed) * 100).toFixed(2)} % of a core`,
      ...{ target: "–", ok: true },
    }),
  ];
}

function hearNames(ws: WebSocket, hear: (name: string) => void): void {
  ws.on("message", (data: Buffer) => {
    const { rows = [] } = JSON.parse(data.toString("utf8")) as { rows?: readonly { name: string | null }[] };
    for (const { name } of rows) if (name !== null) hear(name);
  });
}

interface Renaming {
  readonly name: string;
  /** By name: called when a page has heard of it. */
  readonly ears: Map<string, (time: number) => void>;
}

/** For each page, the milliseconds from the commit until it heard of the name. */
async function renamed(store: Store, handle: string, { name, ears }: Renaming): Promise<readonly number[]> {
  const [run] = await store.findByHandle(handle);
  if (run === undefined) throw new Error(`there is no run ${handle}`);
  const heard: number[] = [];
  ears.set(name, (time) => heard.push(time));
  await store.labelRun(run.runId, { name, relabelled: (run.relabelled ?? 0) + 1 });
  const committed = performance.now();
  const end = committed + LOST_MS;
  while (heard.length < PAGES && performance.now() < end) await sleep(2);
  ears.delete(name);
  const delays = heard.map((time) => Math.max(0, time - committed));
  return [...delays, ...Array.from({ length: PAGES - heard.length }, () => LOST_MS)];
}

async function conversation(site: Site): Promise<readonly Row[]> {
  const started = site.reprise("start", "demo", "a long talk", "--json");
  const { handle } = JSON.parse(started) as { handle: string };
  lengthen(join(site.runDirectory(handle), "attempts", "1", "events.jsonl"));
  let count = 0;
  const [passed, used] = await worked(site, async () => {
    for (let from = "", done = false; !done;) {
      const page = await site.get(`/runs/${handle}/conversation?limit=5000${from}`);
      count += (page["events"] as unknown[]).length;
      [from, done] = [`&from=${String(page["next"])}`, page["done"] === true];
    }
  });
  if (count < EVENTS) throw new Error(`only ${count} of ${EVENTS} events were read`);
  const page = await measurePage(site, { handle, runs: RUNS, events: EVENTS });
  return [
    row(`web: a conversation of ${EVENTS} events over the API`, {
      measured: `${ms(passed)} (processor ${ms(used)})`,
      ...{ target: "≤ 1 s", ok: passed <= 1_000 },
    }),
    ...page,
  ];
}

/** More events of an agent that works: words, and tools that start and end. */
function lengthen(path: string): void {
  const lines = readFileSync(path, "utf8").split("\n", 2);
  const tool = { type: "tool", name: "shell" };
  for (let at = lines.length; at < EVENTS; at += 1) {
    const id = `tool-${at - (at % 4)}`;
    const text = `Step ${at}: the test **fails** in \`shop.ts\` because the clock is read twice.\n\n- one\n- two`;
    const event = [
      { ...tool, state: "started", id, detail: `npm test -- --filter ${at}` },
      { ...tool, state: "ended", id, ok: true, output: "ok 1\nok 2\nok 3" },
      { type: "turn_started" },
      { type: "text", text },
    ][at % 4];
    lines.push(JSON.stringify({ t: at, stream: "stdout", line: at, ...event }));
  }
  writeFileSync(path, `${lines.join("\n")}\n`);
}

/** A page that reads as fast as it can, and the agent's time beside its time without any page. */
async function terminal(site: Site): Promise<readonly Row[]> {
  const bytes = MEGABYTES * 1e6;
  const alone: number[] = [];
  const watched: number[] = [];
  const speeds: number[] = [];
  const costs: number[] = [];
  for (let at = 0; at < ROUNDS; at += 1) {
    alone.push(await printed(site, bytes));
    const printer = new Printer(site, bytes);
    const ws = await site.socket(`/runs/${printer.handle}/terminal`);
    let heard = 0;
    ws.on("message", (data: Buffer, isBinary) => (heard += isBinary ? data.length : 0));
    const begin = performance.now();
    const [, used] = await worked(site, async () => {
      watched.push(await printer.print());
      await until("the page has everything", () => heard >= bytes);
    });
    speeds.push(heard / 1e6 / ((performance.now() - begin) / 1e3));
    costs.push(used / (heard / 1e6));
    ws.terminate();
    await printer.end();
  }
  const speed = median(speeds);
  return [
    row(`web: terminal, an agent that prints ${MEGABYTES} MB`, {
      measured: `${speed.toFixed(1)} MB/s (processor ${ms(median(costs))} per MB)`,
      ...{ target: "≥ 5 MB/s", ok: speed >= 5 },
    }),
    slowed("web: the agent's time, with a page that reads", watched, alone),
  ];
}

/** The agent's own time, with no page. */
async function printed(site: Site, bytes: number): Promise<number> {
  const printer = new Printer(site, bytes);
  const took = await printer.print();
  await printer.end();
  return took;
}

async function stuckPage(site: Site): Promise<readonly Row[]> {
  const bytes = MEGABYTES * 0.4e6;
  const alone: number[] = [];
  const stuck: number[] = [];
  let most = 0;
  for (let at = 0; at < ROUNDS; at += 1) {
    alone.push(await printed(site, bytes));
    const printer = new Printer(site, bytes);
    const ws = await site.socket(`/runs/${printer.handle}/terminal`);
    ws.pause();
    const before = residentBytes(site.pid);
    stuck.push(await printer.print());
    most = Math.max(most, residentBytes(site.pid) - before);
    ws.terminate();
    await printer.end();
  }
  return [
    slowed("web: the agent's time, with a page that does not read", stuck, alone),
    row("web: memory for a page that does not read", {
      ...{ measured: mib(most), target: "≤ 16 MiB", ok: most <= 16 * 1024 ** 2 },
    }),
  ];
}

function slowed(what: string, watched: readonly number[], alone: readonly number[]): Row {
  const [measured, floor] = [median(watched), median(alone)];
  return against(
    what,
    { measured: ms(measured), floor: `no page: ${ms(floor)}`, ratio: measured / floor },
    { most: 1.2 },
  );
}

function row(what: string, figure: Omit<Row, "what">): Row {
  return { what, ...figure };
}

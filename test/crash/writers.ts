/** P19: several processes that write the same file lose nothing of each other. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { openStore } from "../../src/store/store.ts";
import type { Promised, Scale, Verdict } from "./promise.ts";

export const writers: Promised = {
  id: "P19",
  what: "acknowledged writes to shared files",
  wrong: "lost",
  means:
    "Processes that write `trusted.json`, `versions.json` and the index at the same time, one of them killed, lose no entry of each other; neither do programs that append to an issues file while a batch changes it",
  check,
};

export const RUN_ID = "20260101T000000Z-demo-00000000";
export const COUNTER = "counter";
export const BEADS = ".beads/issues.jsonl";
export const MARKDOWN = "issues/a.md";
/** Writing to these is quick, so it is done more often. */
export const APPENDS = 8;
const WRITERS = 4;
/** Enough text that reading and replacing it takes a while. */
const OLD = Array.from(
  { length: 2_000 },
  (_, n) => `${JSON.stringify({ id: `old-${n}`, title: "x".repeat(40) })}\n`,
);
/** Every writer writes to each of these once a round. */
const FILES = ["trusted.json", "versions.json", "index.db", COUNTER, BEADS, MARKDOWN];

async function check({ short, seed, progress }: Scale): Promise<Verdict> {
  const [worlds, writes] = short ? [1, 10] : [5, 60];
  const broken: string[] = [];
  let tried = 0;
  for (let world = 0; world < worlds; world += 1) {
    progress(`shared files: ${world + 1} of ${worlds}`);
    const found = await tryWorld(writes, (seed + world) % writes);
    tried += found.acknowledged;
    broken.push(...found.broken.map((wrong) => `world ${world}: ${wrong}`));
  }
  return {
    tried,
    broken,
    untried: [],
    figures: { "files in each world": FILES.length, "killed writers": worlds },
  };
}

async function tryWorld(writes: number, killAt: number) {
  const root = mkdtempSync(join(tmpdir(), "reprise-writers-"));
  try {
    for (const file of [BEADS, MARKDOWN]) {
      mkdirSync(dirname(join(root, file)));
      writeFileSync(join(root, file), `{"id":"own","n":-1}\n${OLD.join("")}`);
    }
    const script = resolve("test/crash/writers-inside.ts");
    const all = Array.from({ length: WRITERS }, (_, writer) => {
      const words = ["--import", "tsx", script, root, String(writer), String(writes)];
      const child = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "pipe"] });
      // The last one dies in the middle of its work, holding whatever it holds.
      return listen(
        child,
        writer === WRITERS - 1 ? killAt * (APPENDS * 2 + 4) + (killAt % FILES.length) : null,
      );
    });
    const told = await Promise.all(all);
    const acknowledged = told.flatMap(({ lines }) => lines);
    const broken = told.flatMap(({ wrong }) => wrong);
    return { acknowledged: acknowledged.length, broken: [...broken, ...(await lost(root, acknowledged))] };
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

/** What a writer acknowledged, and what it complained of. `killAt`: after this many lines it is killed. */
function listen(child: ChildProcess, killAt: number | null) {
  let [text, complaints] = ["", ""];
  child.stderr?.on("data", (chunk: Buffer) => (complaints += chunk.toString()));
  child.stdout?.on("data", (chunk: Buffer) => {
    text += chunk.toString();
    if (killAt !== null && text.split("\n").length > killAt) child.kill("SIGKILL");
  });
  return new Promise<{ lines: string[]; wrong: string[] }>((done) => {
    child.once("close", (code, signal) => {
      const isWanted = killAt === null ? code === 0 : code === 0 || signal === "SIGKILL";
      const wrong = isWanted ? [] : [`a writer ended with ${code ?? signal}: ${complaints.slice(0, 500)}`];
      done({ lines: text.split("\n").slice(0, -1), wrong });
    });
  });
}

async function lost(root: string, acknowledged: readonly string[]): Promise<readonly string[]> {
  const state = join(root, "state");
  const keys = (name: string) => Object.keys(JSON.parse(readFileSync(join(state, name), "utf8")) as object);
  const ids = (name: string) =>
    readFileSync(join(root, name), "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { id: string; n?: number });
  await using store = await openStore(join(state, "index.db"));
  const counted = Number((await store.getDocument("test", COUNTER))?.data["count"] ?? 0);
  const found: Record<string, ReadonlySet<string>> = {
    "trusted.json": new Set(keys("trusted.json").map((key) => key.slice(1))),
    "versions.json": new Set(keys("versions.json").map((key) => key.slice(1).split("\u0000")[0] ?? "")),
    "index.db": new Set((await store.listEvents(RUN_ID)).map(({ key }) => key ?? "")),
    [BEADS]: new Set(ids(BEADS).map(({ id }) => id)),
    [MARKDOWN]: new Set(ids(MARKDOWN).map(({ id }) => id)),
  };
  const told = acknowledged.map((line) => line.split(" ") as [string, string]);
  const count = (file: string) => told.filter(([name]) => name === file).length;
  const own = (file: string) =>
    told.filter(([name, key]) => name === file && key.startsWith("w0-")).length - 1;
  return [
    ...told
      // The first writer changes its own line; the counter has no keys.
      .filter(
        ([file, key]) => found[file]?.has(key) === false && !(file.includes("/") && key.startsWith("w0-")),
      )
      .map(([file, key]) => `${key} is missing in ${file}`),
    ...[BEADS, MARKDOWN].flatMap((file) => {
      const n = ids(file).find(({ id }) => id === "own")?.n;
      return n === own(file) ? [] : [`${file}: the batch's own change is ${n}, not ${own(file)}`];
    }),
    // A writer that was killed may have counted without saying so.
    ...(counted === count(COUNTER) || counted === count(COUNTER) + 1
      ? []
      : [`the counter says ${counted} after ${count(COUNTER)} times`]),
  ];
}

/**
 * One of several processes that write the same files at the same time, with the product's own functions. Prints a line for
 * each write that was acknowledged. `node writers-inside.ts <root> <writer> <writes>`
 */
import { appendFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { builtInEngine } from "../../src/engines/engines.ts";
import { changeText } from "../../src/issues/sources/files.ts";
import { versionOf } from "../../src/run/engine-setup.ts";
import { trust } from "../../src/setup.ts";
import { openStore } from "../../src/store/store.ts";
import { testDeps } from "../deps.ts";
import { APPENDS, BEADS, COUNTER, MARKDOWN, RUN_ID } from "./writers.ts";

const [root = "", writer = "", writes = "0"] = process.argv.slice(2);
const claude = builtInEngine("claude");
if (claude === undefined) throw new Error("no engine");
const real = await testDeps(root);
const answer = { code: 0, signal: null, stdout: "2.0.1 (Claude Code)\n", stderr: "", timedOut: false };
const deps = { ...real, processes: { ...real.processes, runTool: async () => answer } };
const store = await openStore(deps.state.indexPath);
const terminal = { stdin: false, stdout: false, stderr: false, columns: 80, rows: 24, color: false };

for (let n = 0; n < Number(writes); n += 1) {
  const key = `w${writer}-${n}`;
  const acknowledge = (file: string) => void writeSync(1, `${file} ${key}\n`);
  await trust(deps, [{ path: `/${key}`, sha256: key }], { log: deps.log, terminal, trustCwd: true });
  acknowledge("trusted.json");
  await versionOf(deps, claude, [`/${key}`]);
  acknowledge("versions.json");
  await store.appendEvent({ runId: RUN_ID, attempt: null, kind: "noted", at: "", key, payload: {} });
  acknowledge("index.db");
  while (!(await countOne()));
  acknowledge(COUNTER);
  for (const file of [BEADS, MARKDOWN]) {
    for (let again = 0; again < APPENDS; again += 1) {
      if (writer === "0") changeOwn(file, n * APPENDS + again);
      else appendFileSync(join(root, file), `${JSON.stringify({ id: `${key}-${again}` })}\n`);
      writeSync(1, `${file} ${key}-${again}\n`);
    }
  }
}
await store[Symbol.asyncDispose]();

/** False: another writer was faster. */
async function countOne(): Promise<boolean> {
  const before = await store.getDocument("test", COUNTER);
  const data = { count: Number(before?.data["count"] ?? 0) + 1 };
  const saved = await store.saveDocument(
    { kind: "test", id: COUNTER, open: false, data },
    before?.version ?? null,
  );
  return saved !== null;
}

/** As a batch changes the state of an issue: one line is replaced, whatever others append meanwhile. */
function changeOwn(shown: string, n: number): void {
  const change = (text: string) => text.replace(/^\{"id":"own","n":-?\d+\}$/m, `{"id":"own","n":${n}}`);
  if (changeText({ root, shown, maxBytes: 64 << 20, change }) !== true)
    throw new Error(`${shown} was not changed`);
}

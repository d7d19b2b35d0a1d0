/** `npm run conformance`: installs the pinned engines, runs every case in isolation, and writes the report. */
import { mkdtempSync, realpathSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadCases } from "./case.ts";
import { runCase } from "./interpret.ts";
import { LABS } from "./labs.ts";
import { makeBench } from "./place.ts";

const root = realpathSync(mkdtempSync(join(tmpdir(), "rc-")));
const bench = makeBench(root);
const only = process.argv[2] ?? "";
for (const one of loadCases(LABS.map(({ id }) => id))) {
  if (!one.id.includes(only)) continue;
  const lab = LABS.find(({ id }) => id === one.lab);
  if (lab === undefined) continue;
  const result = await runCase(bench, one, lab, true);
  process.stdout.write(`${result.verdict} ${result.id} ${result.ms} ms\n${result.notes.map((n) => `    ${n}\n`).join("")}${result.log}\n`);
}
process.stdout.write(`${root}\n`);

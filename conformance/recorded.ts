/**
 * iFlow, whose program is no longer published: what it printed once, read by its profile, and a start and three resumes
 * with a scripted agent in its place. Kept apart from the cases of real programs, and labelled as what it is.
 */
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";
import type { Exit } from "../src/core/events.ts";
import type { Group } from "../src/certify/case.ts";
import type { CaseResult } from "../src/certify/interpret.ts";
import { type Bench, type Ended, makePlace, run } from "../src/certify/place.ts";
import { understood } from "./record.ts";
import { RECORDED } from "./report.ts";

const FIXTURES = new URL("../src/engines/iflow.fixtures/", import.meta.url);
const ACTOR = fileURLToPath(new URL("../test/actors/dist/actor.js", import.meta.url));
const GROUP_OF: readonly (readonly [RegExp, Group])[] = [
  [/^(forged|not-an-id|terminal)/, "hostile"],
  [/^(api-error|failed|empty)/, "trouble"],
  [/^killed/, "interruption"],
  [/./, "resume"],
];

export interface RecordedCase {
  readonly id: string;
  readonly group: Group;
  run(bench: Bench): Promise<CaseResult>;
}

export function recordedCases(): readonly RecordedCase[] {
  const names = readdirSync(FIXTURES).flatMap((file) => /^(.*)\.expected\.json$/.exec(file)?.[1] ?? []);
  const readings = names.sort().map((name): RecordedCase => {
    const [, group = "resume"] = GROUP_OF.find(([pattern]) => pattern.test(name)) ?? [];
    return make(`recorded-${name}`, group, () => Promise.resolve(reading(name)));
  });
  return [...readings, make("scripted-resume-three-times", "resume", scripted)];
}

function make(name: string, group: Group, check: (bench: Bench) => Promise<readonly string[]>): RecordedCase {
  const id = `${name}@${RECORDED.id}`;
  const runIt = async (bench: Bench): Promise<CaseResult> => {
    const began = Date.now();
    const notes = await check(bench).catch((error: unknown) => [String(error)]);
    const verdict = notes.length === 0 ? "passed" : "failed";
    const rest = { ms: Date.now() - began, log: "", requests: 0, resumes: { meant: 0, worked: 0 } };
    return { id, name, group, lab: RECORDED.id, verdict, notes, ...rest };
  };
  return { id, group, run: runIt };
}

function reading(name: string): readonly string[] {
  const read = (kind: string) => {
    try {
      return readFileSync(new URL(`${name}.${kind}`, FIXTURES), "utf8");
    } catch {
      return "";
    }
  };
  const texts = { stdout: read("stdout"), stderr: read("stderr") };
  const exit = JSON.parse(read("exit.json") || '{"code":0,"signal":null}') as Exit;
  const found = understood(RECORDED.id, texts, exit);
  const expected = JSON.parse(read("expected.json")) as unknown;
  const holds = isDeepStrictEqual(Array.isArray(expected) ? found.events : found, expected);
  return holds ? [] : [`it was read as ${JSON.stringify(found)}`];
}

/** Each answer of the scripted agent says how many earlier messages it remembers. */
async function scripted(bench: Bench): Promise<readonly string[]> {
  const place = makePlace(bench, "scripted@iflow");
  const program = join(place.root, "iflow");
  writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${ACTOR}' --as iflow -- "$@"\n`);
  chmodSync(program, 0o755);
  const settings = join(place.home, ".config", "reprise");
  mkdirSync(settings, { recursive: true });
  writeFileSync(join(settings, "config.toml"), `[engines.iflow]\nprogram = ${JSON.stringify(program)}\n`);
  const env = { PATH: "/usr/local/bin:/usr/bin:/bin", HOME: place.home, REPRISE_HOME: place.state };
  const reprise = (args: readonly string[]) =>
    run(process.execPath, [bench.cli, ...args], { cwd: place.project, env, stdin: null }).ended;
  const first = await reprise(["start", "iflow", "--json", "Remember the number 4711."]);
  const { handle = "" } = JSON.parse(first.stdout) as { handle?: string };
  const wrong = first.code === 0 ? [] : [`the start: exit ${first.code}: ${first.stderr}`];
  for (const n of [1, 2, 3]) {
    const ended = await reprise(["resume", "--json", handle, `Which number was it, time ${n}?`]);
    wrong.push(...remembered(ended, n));
  }
  return wrong;
}

function remembered({ code, stdout, stderr }: Ended, count: number): readonly string[] {
  const isSaid = stdout.includes(`I remember ${count} earlier message`);
  return code === 0 && isSaid ? [] : [`resume ${count}: exit ${code}: ${stdout} ${stderr}`];
}

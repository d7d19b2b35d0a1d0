/** P3: the power goes. What was acknowledged before is there after, whichever of the writes that were not synced reached the disk. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chances } from "../e2e/agent-storms.ts";
import { aftermath } from "./aftermath.ts";
import { afterCut, type Cut, type Op, parseTrace, readTree, writeTree } from "./disk.ts";
import { IoBox, type Said } from "./io-box.ts";
import { FaultyIo } from "./io.ts";
import { inParallel } from "./pool.ts";
import type { Promised, Scale, Verdict } from "./promise.ts";
import { type Scenario, SCENARIOS } from "./scenarios.ts";

/** One scenario is traced, and its disk cut at several points. */
interface Series {
  readonly scenario: Scenario;
  readonly cuts: number;
  readonly seed: number;
}

const FULL: readonly (readonly [Scenario, series: number])[] = [
  [SCENARIOS.start, 10],
  [SCENARIOS.resume, 10],
  [SCENARIOS.detach, 6],
  [SCENARIOS.review, 6],
  [SCENARIOS.issues, 4],
  [SCENARIOS.agent, 2],
  [SCENARIOS.pipeline, 2],
];
const CUTS = 25;
const SHORT: readonly (readonly [Scenario, cuts: number])[] = [
  [SCENARIOS.start, 6],
  [SCENARIOS.resume, 6],
  [SCENARIOS.review, 4],
];

export const powerCut: Promised = {
  id: "P3",
  what: "power cuts",
  wrong: "lost something acknowledged or left something unreadable",
  means: "Everything acknowledged before a power cut is there afterwards, and every conversation continues",
  check,
};

async function check(scale: Scale): Promise<Verdict> {
  const io = FaultyIo.open();
  if (typeof io === "string") return { tried: 0, broken: [], untried: [io], figures: {} };
  using _ = io;
  const broken: string[] = [];
  const figures: Record<string, number> = {};
  let tried = 0;
  const all = scale.short
    ? SHORT.map(([scenario, cuts], at) => ({ scenario, cuts, seed: scale.seed + at }))
    : FULL.flatMap(([scenario, series], place) =>
        Array.from({ length: series }, (__, at) => ({
          scenario,
          cuts: CUTS,
          seed: scale.seed + place * 100 + at,
        })),
      );
  await inParallel(all, async (series) => {
    const name = series.scenario.name;
    await cutOften(io, series, (what, wrong) => {
      tried += 1;
      figures[`cuts of ${name}`] = (figures[`cuts of ${name}`] ?? 0) + 1;
      if (wrong.length > 0) broken.push(`${name}, ${what}: ${wrong.join(" · ")}`);
      scale.progress(`P3: ${tried}, ${broken.length} broken`);
    });
  });
  return { tried, broken, untried: ["a real power cut"], figures };
}

type Tell = (what: string, wrong: readonly string[]) => void;

async function cutOften(io: FaultyIo, { scenario, cuts, seed }: Series, tell: Tell): Promise<void> {
  await using box = new IoBox();
  const outside = mkdtempSync(join(tmpdir(), "reprise-trace-"));
  try {
    await scenario.prepare(box);
    await box.strays();
    // The programs of the sandbox stay where they are.
    const except = (path: string) => path === box.bin || path.startsWith(`${box.bin}/`);
    const before = readTree(box.root, except);
    const file = join(outside, "trace");
    const { env } = io.inject(box.root, null, { kind: "trace", n: 0, file });
    const git = tracedGit(box, env);
    const said = await scenario.act(box, env);
    await box.strays();
    rmSync(git);
    const ops = parseTrace(readFileSync(file));
    const chance = chances(seed);
    for (let n = 0; n < cuts; n += 1) {
      const cut: Cut = {
        at: momentOf(box, ops, chance),
        model: chance() < 0.5 ? "journal" : "worst",
        chance,
        spared: (path) => !isOurs(box, path),
      };
      writeTree(box.root, afterCut(before, ops, cut), except);
      // Each cut writes our tree again, which looks like a copied directory.
      rmSync(join(box.state, "identity.json"), { force: true });
      const what = `seed ${seed}, cut ${n} (${cut.model}) after call ${cut.at} of ${ops.length}`;
      tell(what, await judge(box, scenario, acknowledgedAt(said, ops, cut.at)));
    }
  } finally {
    rmSync(outside, { recursive: true, force: true });
  }
}

/** Our git gets few variables, and what it writes belongs to the disk as well. */
function tracedGit(box: IoBox, env: Readonly<Record<string, string>>): string {
  const real = execFileSync("sh", ["-c", "command -v git"], { encoding: "utf8" }).trim();
  const variables = Object.entries(env).map(([name, value]) => `'${name}=${value}'`);
  return box.program("git", `exec env ${variables.join(" ")} '${real}' "$@"`);
}

/** Right after a message or a name was stored, when the most is promised and the most can be half done; or anywhere. */
function momentOf(box: IoBox, ops: readonly Op[], chance: () => number): number {
  const ours = [...ops.keys()].filter((at) => ops[at]?.kind === "said" || isOurs(box, ops[at]?.path ?? ""));
  const kind = (["said", "rename", "rename", null] as const)[Math.floor(chance() * 4)] ?? null;
  const moments = kind === null ? ours : ours.filter((at) => ops[at]?.kind === kind);
  const some = moments.length === 0 ? ours : moments;
  return 1 + (some[Math.floor(chance() * some.length)] ?? 0);
}

/** What agents and git write in a run's own work is theirs. */
function isOurs(box: IoBox, path: string): boolean {
  if (path !== box.state && !path.startsWith(`${box.state}/`)) return false;
  return !/\/runs\/[^/]+\/work(tree)?(\/|$)/.test(path) && !/\/workspaces\/[^/]+\/work(\/|$)/.test(path);
}

function acknowledgedAt(said: readonly Said[], ops: readonly Op[], at: number): Said[] {
  return said.map((one) => {
    const words = (fd: number) =>
      ops
        .slice(0, at)
        .filter(({ kind, pid, inode }) => kind === "said" && pid === one.pid && inode === fd)
        .map(({ data }) => data.toString())
        .join("");
    return { ...one, code: null, signal: "SIGKILL", stdout: words(1), stderr: words(2) };
  });
}

async function judge(box: IoBox, scenario: Scenario, said: readonly Said[]): Promise<readonly string[]> {
  try {
    return [...(await scenario.finish(box, said)), ...(await aftermath(box, said, scenario))];
  } catch (error) {
    return [`the trial itself failed: ${error instanceof Error ? error.message : String(error)}`];
  }
}

/**
 * A sandbox whose agents are watched by something that Reprise knows nothing of: each takes a lock of the kernel's on its
 * run for as long as it lives, and says so when another one has it. Journal, locks and session files are the judges.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { AgentBox } from "../e2e/agent-box.ts";
import { markerIn } from "../e2e/agent-storms.ts";
import { isAlive } from "../e2e/holder-box.ts";
import { ACTOR, type Sandbox, until } from "../e2e/sandbox.ts";

export interface ShownRun {
  readonly handle: string;
  readonly runId: string;
  readonly runDirectory: string;
  readonly status: string;
  readonly attempts: number;
  readonly session: { readonly value: string | null };
  readonly history: readonly Record<string, unknown>[];
}

const DOUBLES = ["claude", "codex"] as const;
export type Double = (typeof DOUBLES)[number];

/**
 * Puts the doubles on the PATH of a sandbox, each with a lock of the kernel's on its run while it lives; `before` is what an
 * agent does first, in words of a shell. Tells which attempts began while another agent of the same run lived.
 */
export function watchAgents(box: Sandbox, before = ""): () => string[] {
  const locks = join(box.root, "locks");
  const overlaps = join(box.root, "overlaps");
  mkdirSync(locks);
  for (const engine of DOUBLES) {
    box.program(
      engine,
      `if [ -n "$REPRISE_ATTEMPT" ]; then
  exec 9>>'${locks}'/"\${REPRISE_ATTEMPT%/*}"
  flock -n 9 || echo "$REPRISE_ATTEMPT" >>'${overlaps}'
${before}
fi
exec '${process.execPath}' '${ACTOR}' --as ${engine} -- "$@"`,
    );
  }
  return () => (existsSync(overlaps) ? readFileSync(overlaps, "utf8").split("\n").filter(Boolean) : []);
}

export class CrashBox extends AgentBox {
  readonly overlaps = watchAgents(this);

  /** Attempts that the agents say were begun more than once, and messages that were heard more than once. */
  repeats(isUnique: (text: string) => boolean): string[] {
    const twice = (words: readonly string[]) =>
      words.filter((word, at) => words.indexOf(word) !== at && word !== "undefined");
    const starts = this.events("start").map(markerIn);
    return [
      ...twice(starts).map((marker) => `attempt ${marker} was begun twice`),
      ...twice(this.messages().filter(isUnique)).map((text) => `told twice: ${text}`),
    ];
  }

  /** Events with the attempt of the agent that wrote them: pids are used again, so the latest start counts. */
  attributed(event: string): { readonly marker: string; readonly entry: Record<string, any> }[] {
    const markers = new Map<unknown, string>();
    return this.journalEntries().flatMap((entry) => {
      if (entry["event"] === "start") markers.set(entry["pid"], markerIn(entry));
      return entry["event"] === event ? [{ marker: markers.get(entry["pid"]) ?? "", entry }] : [];
    });
  }

  /** Agents that live, by their own account, and their parents, who hold them. */
  live(): { readonly marker: string; readonly agent: number; readonly holder: number }[] {
    const latest = new Map(this.events("start").map((entry) => [Number(entry["pid"]), entry]));
    const ours = new Set(this.leftovers());
    return [...latest]
      .filter(([pid]) => ours.has(pid) && isAlive(pid))
      .map(([agent, entry]) => ({ marker: markerIn(entry), agent, holder: Number(entry["ppid"]) }));
  }

  /** True: the engine's own file of this session has the text. */
  stored(session: string, text: string): boolean {
    return readdirSync(this.home, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".jsonl") && name.includes(session))
      .some((name) => readFileSync(join(this.home, name), "utf8").includes(text));
  }

  shownRun(handle: string): Promise<ShownRun> {
    return this.json<ShownRun>(["show", handle]);
  }

  /** Files of writers that are gone, below this directory. */
  temporary(directory = this.state): string[] {
    return readdirSync(directory, { recursive: true, encoding: "utf8" })
      .filter((name) => /(?:^|\/)\.(?:tmp|trash)-(\d+)-/.test(name))
      .filter((name) => !isAlive(Number(/\.(?:tmp|trash)-(\d+)-/.exec(name)?.[1])));
  }

  /** What `doctor` does not find in order in the index. */
  async damage(): Promise<string[]> {
    const { index, findings } = await this.json<{
      index: { damaged: number };
      findings: { level: string; about: string; what: string }[];
    }>(["doctor"]);
    const serious = findings.filter(({ level, about }) => level === "attention" && about !== "state");
    return [
      ...(index.damaged === 0 ? [] : [`${index.damaged} damaged rows`]),
      ...serious.map(({ what }) => `doctor: ${what}`),
    ];
  }

  /** Processes of this sandbox that are still there after a moment. */
  async strays(except: readonly number[] = []): Promise<number[]> {
    const left = () => this.leftovers().filter((pid) => !except.includes(pid) && isAlive(pid));
    await until("nothing is left", () => left().length === 0, 5_000).catch(() => {});
    return left();
  }

  /** False: it has ended, or is not one of ours. */
  kill(pid: number | undefined, signal: NodeJS.Signals = "SIGKILL"): boolean {
    if (pid === undefined || !this.leftovers().includes(pid) || !isAlive(pid)) return false;
    try {
      return process.kill(pid, signal);
    } catch {
      return false;
    }
  }
}

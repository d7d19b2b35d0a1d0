/**
 * Secrets that are nowhere else on the machine, a search for them in every form they may take, and an eye on the arguments
 * of all processes that are started meanwhile.
 */
import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";

const NAMES = [
  "environment",
  "given",
  "flag",
  "flagEquals",
  "prompt",
  "header",
  "url",
  "dotenv",
  "stderr",
  "json",
  "base64",
  "github",
  "runbook",
  "config",
  "gate",
  "command",
] as const;
export type CanaryName = (typeof NAMES)[number];

/** Vendors' prefixes, for secrets that are recognized by their form alone. */
const BEGINNING: Partial<Record<CanaryName, string>> = {
  prompt: "sk-ant-api03-",
  stderr: "xoxb-1234567890-",
  github: "ghp_",
  gate: "glpat-",
  command: "npm_",
};

export class Canaries {
  readonly of: Readonly<Record<CanaryName, string>>;
  readonly #forms: readonly (readonly [name: CanaryName, forms: readonly Buffer[]])[];

  constructor() {
    const secret = () => randomBytes(18).toString("hex").replace(/^./, "Q");
    const cores = NAMES.map((name) => [name, secret()] as const);
    this.of = Object.fromEntries(
      cores.map(([name, core]) => [name, `${BEGINNING[name] ?? ""}${core}`]),
    ) as Record<CanaryName, string>;
    this.#forms = cores.map(([name, core]) => [name, formsOf(core)]);
  }

  /** Names of those that occur, whole or in a good part, as they are or encoded. */
  in(text: string | Buffer): CanaryName[] {
    const bytes = typeof text === "string" ? Buffer.from(text) : text;
    return this.#forms.flatMap(([name, forms]) => (forms.some((form) => bytes.includes(form)) ? [name] : []));
  }
}

/** Half of it is enough to be found. */
function formsOf(core: string): Buffer[] {
  const halves = [core.slice(0, 20), core.slice(-20)];
  const encoded = halves.flatMap((half) =>
    [0, 1, 2].map((offset) =>
      Buffer.concat([Buffer.alloc(offset), Buffer.from(half)])
        .toString("base64")
        .slice(4, 24),
    ),
  );
  return [...halves, ...encoded, Buffer.from(halves[0] ?? "").toString("hex")].map((form) =>
    Buffer.from(form),
  );
}

/** Looks at the arguments of every process that was not there before. What the test itself typed is not ours. */
export class ArgumentWatch implements Disposable {
  readonly found: string[] = [];
  looks = 0;
  readonly #before = new Set(readdirSync("/proc"));
  /** Of each process when it was seen first. */
  readonly #parents = new Map<string, number>();
  /** What the test itself ran; a process that is about to become another one still shows it. */
  readonly #typed = new Set<string>();
  readonly #canaries: Canaries;
  readonly #timer: NodeJS.Timeout;

  constructor(canaries: Canaries) {
    this.#canaries = canaries;
    this.#timer = setInterval(() => this.#look(), 4);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#look();
  }

  #look(): void {
    for (const pid of readdirSync("/proc")) {
      if (!/^\d+$/.test(pid) || this.#before.has(pid)) continue;
      const parent = this.#parents.get(pid) ?? parentOf(pid);
      this.#parents.set(pid, parent);
      const words = read(`/proc/${pid}/cmdline`);
      if (parent === process.pid) this.#typed.add(words);
      this.looks += 1;
      if (this.#typed.has(words) || this.#canaries.in(words).length === 0) continue;
      const isAgent = read(`/proc/${pid}/environ`).includes("REPRISE_ATTEMPT=");
      this.#judge(words.replaceAll("\0", " "), isAgent);
    }
  }

  #judge(words: string, isAgent: boolean): void {
    const hits = inArguments(this.#canaries, words, isAgent);
    const text = `${hits.join(", ")} in the arguments of ${words.slice(0, 80)}…`;
    if (hits.length > 0 && !this.found.includes(text)) this.found.push(text);
  }
}

/** Native options are the user's own arguments for the agent and nobody else; commands of a config are the user's own too. */
export function inArguments(canaries: Canaries, words: string, isAgent: boolean): CanaryName[] {
  return canaries.in(words).filter((name) => name !== "command" && !(isAgent && name.startsWith("flag")));
}

/**
 * Programs that write down how they were called, since some are gone before anybody looks: the scripts in `bin`, which are
 * agents, and programs of the system that are put before the real ones on the PATH.
 */
export function noteCalls(bin: string, names: readonly string[], log: string): void {
  for (const name of readdirSync(bin)) {
    const file = join(bin, name);
    const [first = "", ...rest] = readFileSync(file, "utf8").split("\n");
    writeFileSync(file, [first, noteLine("agent", log), ...rest].join("\n"));
  }
  for (const name of names) {
    const folders = (process.env["PATH"] ?? "").split(delimiter);
    const real = folders.map((folder) => join(folder, name)).find((file) => existsSync(file));
    if (real === undefined) continue;
    writeFileSync(join(bin, name), `#!/bin/sh\n${noteLine(name, log)}\nexec '${real}' "$@"\n`, {
      mode: 0o755,
    });
  }
}

function noteLine(name: string, log: string): string {
  return `printf '%s\\n' "${name} $*" | tr '\\n' ' ' >> '${log}'; echo >> '${log}'`;
}

/** Exact by intent: raw tapes, transcripts, copies of sessions, what GitHub said, and the demo engine's own conversations. */
export const RAW =
  /\/(?:stdout|stderr|pty-output)\.log$|\/escrow\/|\/reviews\/[^/]*\.jsonl$|\/(?:reviews|issues)\/cache\/|\/state\/demo\//;
/** What agents work in is theirs. */
const THEIRS = /\/(?:work|worktree|worktrees)\//;

export interface Place {
  readonly path: string;
  readonly mode: number;
  readonly isFile: boolean;
}

export function placesIn(root: string): Place[] {
  return readdirSync(root, { recursive: true, encoding: "utf8" })
    .map((name) => join(root, name))
    .filter((path) => !THEIRS.test(path))
    .flatMap((path) => {
      const stats = statSync(path, { throwIfNoEntry: false });
      return stats === undefined ? [] : [{ path, mode: stats.mode & 0o777, isFile: stats.isFile() }];
    });
}

function parentOf(pid: string): number {
  return Number(/^PPid:\s*(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1] ?? -1);
}

function read(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}

/**
 * A pull request under review in one case: the clone, the comments of the day, Reprise with and without its UI, and the
 * files that both programs left about it. Reports the facts; the act knows the expectations.
 */
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { LabWorld } from "../src/certify/world.ts";
import type { RequestRecord } from "../src/certify/model-server/server.ts";
import { type Ended, environment, Late, run, type Running, settle, until } from "../src/certify/place.ts";
import { Terminal } from "./terminal.ts";

export const DEADLINE_MS = 30_000;
const SIZE = { columns: 80, rows: 24 } as const;
const PULL_REQUEST = "acme/shop#42";

/** The message at which the wire between Reprise and Codex is cut off. */
export interface Hold {
  /** out: what Reprise says. in: what Codex says. */
  readonly side: "in" | "out";
  readonly text: string;
  /** before: the message itself is not passed on. */
  readonly when: "before" | "after";
  /** Which of the messages with this text; 1 is the first. */
  readonly nth?: number;
  /** Codex does not learn that Reprise has nothing more to say, as long as there is a Reprise. */
  readonly stays?: true;
}

export interface SidecarFile {
  readonly path: string;
  readonly status: string;
  readonly thread_id: string | null;
  readonly handle: string;
  readonly declined_at: string | null;
  readonly approvals: readonly { readonly what: string }[];
}

/** One line of a transcript. */
export interface Line {
  readonly dir?: "in" | "out";
  readonly type?: string;
  readonly decision?: string;
  readonly by?: string;
  readonly what?: string;
  readonly about?: string;
  readonly changes?: readonly { readonly what: string; readonly diff: string }[];
  readonly attempt?: number;
  readonly status?: string;
  readonly message?: { readonly method?: string; readonly result?: { readonly decision?: unknown } };
}

export interface Answer {
  readonly ok: boolean;
  readonly status: string;
  readonly resumed: boolean;
  readonly handle: string;
}

export class Review {
  readonly #world: LabWorld;
  readonly #env: Readonly<Record<string, string>>;
  readonly #wire: string;

  constructor(world: LabWorld) {
    const { place, lab, server } = world;
    this.#world = world;
    this.#env = environment(place, lab, server.url);
    this.#wire = join(place.root, "wire");
    mkdirSync(this.#wire);
    const stub = join(this.#wire, "codex");
    writeFileSync(stub, wireStub(lab.program, this.#wire));
    chmodSync(stub, 0o755);
    settle(place, { ...lab, program: stub }, server.url);
    const remote = ["remote", "add", "origin", "https://github.com/acme/shop.git"];
    const { status, stderr } = spawnSync("git", remote, { cwd: place.project, env: this.#env });
    if (status !== 0) throw new Error(`git remote add: ${stderr.toString()}`);
  }

  /** The comments of the day. */
  comments(...bodies: readonly string[]): void {
    const lines = bodies.map((body, n) =>
      JSON.stringify({
        ...{ id: n + 1, author: "maintainer", author_association: "MEMBER", file_path: "README.txt" },
        ...{
          line_number: 1,
          body,
          diff_hunk: "@@ -0,0 +1 @@\n+A project",
          created_at: "2026-11-01T10:00:00Z",
        },
      }),
    );
    writeFileSync(this.#comments, `${lines.join("\n")}\n`);
  }

  /** Starts `reprise review --run`. */
  headless(...flags: readonly string[]): Running {
    const args = [...this.#command, "--run", "--json", ...flags];
    this.#world.log.push(`$ reprise ${args.slice(1).join(" ")}`);
    return run(process.execPath, args, { cwd: this.#world.place.project, env: this.#env, stdin: null });
  }

  /** Runs it to its end. */
  async send(...flags: readonly string[]): Promise<{ ended: Ended; answer: Answer }> {
    const ended = await this.end(this.headless(...flags));
    try {
      return { ended, answer: JSON.parse(ended.stdout) as Answer };
    } catch {
      throw new Error(`exit ${ended.code}, and no JSON: ${ended.stdout} ${ended.stderr}`);
    }
  }

  async end(running: Running): Promise<Ended> {
    let over: Ended | null = null;
    void running.ended.then((ended) => (over = ended));
    const ended = await until<Ended>("`reprise review` ended", () => over, DEADLINE_MS);
    this.#world.log.push(`  exit ${ended.code ?? ended.signal}\n${ended.stdout}\n${ended.stderr}`);
    return ended;
  }

  /** Opens the UI; it shows the comments. */
  async open(...flags: readonly string[]): Promise<Terminal> {
    const command = [process.execPath, ...this.#command, ...flags];
    const launch = { cwd: this.#world.place.project, env: this.#env, size: SIZE };
    const terminal = await Terminal.open(this.#world.place, command, launch);
    await terminal.shows("maintainer");
    return terminal;
  }

  /** Any other command of Reprise. */
  async reprise(...args: readonly string[]): Promise<Ended> {
    const { place, bench } = this.#world;
    return this.end(
      run(process.execPath, [bench.cli, ...args], { cwd: place.project, env: this.#env, stdin: null }),
    );
  }

  /** Another Codex has the conversation open, until the returned function is called. */
  async occupy(thread: string): Promise<() => Promise<void>> {
    const { lab, place } = this.#world;
    const other = spawn(lab.program, ["app-server"], {
      cwd: place.project,
      env: this.#env,
      stdio: ["pipe", "pipe", "ignore"],
    });
    const gone = new Promise((ended) => other.once("close", ended));
    let heard = "";
    other.stdout.setEncoding("utf8").on("data", (chunk: string) => (heard += chunk));
    const clientInfo = { name: "other", title: "Other", version: "1" };
    for (const message of [
      { id: 1, method: "initialize", params: { clientInfo } },
      { method: "initialized" },
      { id: 2, method: "thread/resume", params: { threadId: thread, excludeTurns: true } },
    ])
      other.stdin.write(`${JSON.stringify(message)}\n`);
    await until("another Codex has it open", () => /"id":2,"result"/.test(heard), DEADLINE_MS);
    return async () => {
      other.stdin.end();
      await gone;
    };
  }

  hold(hold: Hold): void {
    rmSync(this.#mark, { force: true });
    writeFileSync(join(this.#wire, "hold.json"), JSON.stringify(hold));
  }

  release(): void {
    rmSync(join(this.#wire, "hold.json"), { force: true });
  }

  /** Codex's process once the wire is held; null before. */
  held(): number | null {
    return existsSync(this.#mark) ? Number(readFileSync(this.#mark, "utf8")) || null : null;
  }

  /** Oldest first. A sidecar that is torn or lacks a field is an error. */
  sidecars(): readonly SidecarFile[] {
    return this.#files(".session.json").map((path) => {
      const record = JSON.parse(readFileSync(path, "utf8")) as SidecarFile & Record<string, unknown>;
      const missing = FIELDS.filter((field) => !(field in record));
      if (missing.length > 0) throw new Error(`${path} lacks ${missing.join(", ")}`);
      return { ...record, path };
    });
  }

  /** The newest. */
  sidecar(): SidecarFile {
    const last = this.sidecars().at(-1);
    if (last === undefined) throw new Error("there is no sidecar");
    return last;
  }

  /** Of the sidecar's session. A line that is no JSON is an error. */
  transcript({ path } = this.sidecar()): readonly Line[] {
    const text = readFileSync(path.replace(/\.session\.json$/, ".jsonl"), "utf8");
    return text
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as Line);
  }

  turns(): readonly RequestRecord[] {
    return this.#world.server.requests.filter(({ kind }) => kind === "turn");
  }

  /** What the model was asked last. */
  lastTurn(): RequestRecord {
    const turn = this.turns().at(-1);
    if (turn === undefined) throw new Error("nothing was sent to the model");
    return turn;
  }

  /** Waits until the model has begun an answer that it will not end. */
  async streaming(turns = 1): Promise<void> {
    const is = () => this.turns().length >= turns && this.turns().at(-1)?.state === "streaming";
    await until("the model answers", is, DEADLINE_MS);
  }

  /** Codex's own files of conversations that hold this text. */
  stored(text: string): readonly string[] {
    const { lab, place } = this.#world;
    return lab.storeFiles(place).filter((file) => readFileSync(file, "utf8").includes(text));
  }

  get #mark(): string {
    return join(this.#wire, "held");
  }

  get #comments(): string {
    return join(this.#world.place.extra, "comments.jsonl");
  }

  get #command(): readonly string[] {
    return [this.#world.bench.cli, "review", PULL_REQUEST, "--comments", this.#comments];
  }

  #files(end: string): readonly string[] {
    const folder = join(this.#world.place.state, "reviews");
    if (!existsSync(folder)) return [];
    return readdirSync(folder)
      .filter((name) => name.endsWith(end))
      .sort((one, other) => stem(one).localeCompare(stem(other), "en", { numeric: true }))
      .map((name) => join(folder, name));
  }
}

/** The second session of a second is named after the first, with a number. */
function stem(name: string): string {
  return name.replace(/\.session\.json$/, "");
}

const FIELDS = [
  ...["status", "transcript_path", "thread_id", "owner", "repository", "pr_number"],
  ...["started_at", "finished_at", "handle"],
];

/** Fails with what was expected. */
export function must(holds: boolean, what: string): void {
  if (!holds) throw new Late(what);
}

/**
 * Stands between Reprise and Codex. At the message that `hold.json` names it passes nothing on any more, in neither
 * direction, and says so in the file `held`.
 */
function wireStub(program: string, folder: string): string {
  return `#!/usr/bin/env node
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const [program, folder, words, parent] = [${JSON.stringify(program)}, ${JSON.stringify(folder)}, process.argv.slice(2), process.ppid];
const isHeld = words.includes("app-server") && fs.existsSync(folder + "/hold.json");
const hold = isHeld ? JSON.parse(fs.readFileSync(folder + "/hold.json", "utf8")) : null;
const child = spawn(program, words, { stdio: isHeld ? ["pipe", "pipe", "inherit"] : "inherit" });
let [silent, seen] = [false, 0];
const stop = () => {
  silent = true;
  fs.writeFileSync(folder + "/held.new", String(child.pid));
  fs.renameSync(folder + "/held.new", folder + "/held");
};
const carry = (side, from, to) => {
  let rest = "";
  to.on("error", () => {});
  from.setEncoding("utf8").on("data", (chunk) => {
    const lines = (rest + chunk).split("\\n");
    rest = lines.pop();
    for (const line of lines) {
      if (silent) continue;
      const hit = side === hold.side && line.includes(hold.text) && ++seen === (hold.nth ?? 1);
      if (!hit || hold.when === "after") to.write(line + "\\n");
      if (hit) stop();
    }
  });
};
if (isHeld) {
  carry("out", process.stdin, child.stdin);
  carry("in", child.stdout, process.stdout);
  process.stdin.on("end", () => {
    if (hold.stays !== true) return child.stdin.end();
    setInterval(() => process.ppid === parent || child.stdin.end(), 20);
  });
}
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(name, () => child.kill(name));
child.once("close", (code, signal) => (signal === null ? process.exit(code) : process.kill(process.pid, "SIGKILL")));
`;
}

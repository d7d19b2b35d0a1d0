/** A repository with issues for one test, and the batches that work on them. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Result, Sandbox } from "./sandbox.ts";

export interface Entry {
  readonly status: string;
  readonly session_id: string | null;
  readonly handle: string | null;
  readonly baseline_commit: string | null;
  readonly branch: string | null;
  readonly attempts: number;
  readonly tools: number | null;
  readonly error: string | null;
  readonly findings: readonly string[];
  readonly gate: { readonly passed: boolean; readonly detail: string } | null;
}

export interface BatchFile {
  readonly run_id: string;
  readonly started_at: string;
  readonly completed_at: string | null;
  /** The issues that it set out to work on, in this order. */
  readonly planned?: readonly string[];
  readonly issues: Record<string, Entry>;
}

export class IssueBox extends Sandbox {
  constructor() {
    super();
    this.git("init", "-q", "-b", "main");
    this.git("config", "user.name", "Tester");
    this.git("config", "user.email", "tester@localhost");
    mkdirSync(join(this.cwd, "issues"));
  }

  git(...args: string[]): string {
    const env = { PATH: process.env["PATH"], HOME: this.home, GIT_CONFIG_NOSYSTEM: "1" };
    return execFileSync("git", args, { cwd: this.cwd, env, encoding: "utf8", stdio: "pipe" }).trim();
  }

  issue(id: string, body: string, head = ""): void {
    writeFileSync(join(this.cwd, "issues", `${id}.md`), `---\ntitle: Issue ${id}\n${head}---\n${body}\n`);
  }

  /** Runs `sh` with this script in every worktree. */
  gate(script: string, more = ""): void {
    const words = JSON.stringify(["sh", "-c", script]);
    writeFileSync(join(this.cwd, "reprise.toml"), `[issues.gate]\ncommands = [${words}]\n${more}`);
  }

  commit(): void {
    this.git("add", "-A");
    this.git("commit", "-q", "-m", "as it is");
  }

  batch(...args: string[]): Promise<Result> {
    return this.run(this.batchArgs(...args));
  }

  batchArgs(...args: string[]): string[] {
    return ["issues", "run", "--engine", "demo", "--trust-cwd", ...args];
  }

  text(id: string): string {
    return readFileSync(join(this.cwd, "issues", `${id}.md`), "utf8");
  }

  statuses(): Record<string, string> {
    const names = readdirSync(join(this.cwd, "issues")).filter((name) => name.endsWith(".md"));
    return Object.fromEntries(
      names.map((name) => {
        const id = name.slice(0, -3);
        return [id, /^status: (\w+)$/m.exec(this.text(id))?.[1] ?? "open"];
      }),
    );
  }

  metadataDirectory(): string {
    const root = join(this.state, "issues");
    const [slug] = existsSync(root) ? readdirSync(root).filter((name) => name.startsWith("project-")) : [];
    return join(root, slug ?? "nothing");
  }

  /** Oldest first; throws when one is torn. */
  batches(): BatchFile[] {
    const directory = this.metadataDirectory();
    if (!existsSync(directory)) return [];
    return readdirSync(directory)
      .filter((name) => name.endsWith(".json"))
      .map((name) => JSON.parse(readFileSync(join(directory, name), "utf8")) as BatchFile)
      .toSorted((one, other) => (one.started_at < other.started_at ? -1 : 1));
  }

  /** The messages that the agents got: session and the first line of each message. */
  told(): { session: string; text: string }[] {
    return this.journalEntries()
      .filter(({ event }) => event === "message")
      .map((entry) => ({ session: String(entry["session"]), text: String(entry["text"]) }));
  }

  /** Sessions that can go on: their agents have kept the message. */
  kept(): Set<string> {
    const kept = this.journalEntries().filter(({ event }) => event === "kept");
    return new Set(kept.map((entry) => String(entry["session"])));
  }

  /** The names in the worktree of a run; none before it is made. */
  worktree(handle: string): string[] {
    const run = this.runDirectories().find((path) => path.endsWith(`-${handle}`));
    const place = join(run ?? "nowhere", "worktree");
    return existsSync(place) ? readdirSync(place) : [];
  }

  sessionFile(id: string): string {
    return join(this.state, "demo", "sessions", `${id}.jsonl`);
  }
}

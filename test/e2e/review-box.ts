/** A sandbox whose project is a clone of acme/shop, with a scripted Codex, and what `reprise review` left behind. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Result, type RunOptions, Sandbox } from "./sandbox.ts";

export interface StoredComment {
  readonly id: number | string;
  readonly body: string;
  readonly [field: string]: unknown;
}

export class ReviewBox extends Sandbox {
  readonly commentsFile = join(this.root, "comments.jsonl");
  readonly reviews = join(this.state, "reviews");

  constructor(remote = "https://github.com/acme/shop.git") {
    super();
    this.git("init", "-q", "-b", "faster");
    this.git("remote", "add", "origin", remote);
    this.git(
      "-c",
      "user.name=a",
      "-c",
      "user.email=a@example.com",
      "commit",
      "-q",
      "--allow-empty",
      "-m",
      "x",
    );
    this.comments({ id: 1, body: "Prices are floats here." });
  }

  git(...args: string[]): string {
    const { status, stdout, stderr } = spawnSync("git", args, {
      cwd: this.cwd,
      env: this.env(),
      encoding: "utf8",
    });
    if (status !== 0) throw new Error(`git ${args.join(" ")}: ${stderr}`);
    return stdout.trim();
  }

  /** Writes the file that `fromFile` reads; fields that are not given are a member's. */
  comments(...comments: readonly StoredComment[]): void {
    const common = {
      author: "alice",
      author_association: "MEMBER",
      file_path: "src/cart.ts",
      line_number: 2,
      created_at: "2026-04-14T16:00:49Z",
    };
    const lines = comments.map((comment) => `${JSON.stringify({ ...common, ...comment })}\n`);
    writeFileSync(this.commentsFile, lines.join(""));
  }

  review(args: readonly string[], options: RunOptions = {}): Promise<Result> {
    return this.run(["review", ...args], options);
  }

  /** `--run` with the comments of the file. */
  fromFile(args: readonly string[] = [], options: RunOptions = {}): Promise<Result> {
    return this.review(["acme/shop#42", "--comments", this.commentsFile, "--run", ...args], options);
  }

  /** With a cue for the scripted server. */
  cued(cue: string, args: readonly string[] = []): Promise<Result> {
    return this.fromFile(args, { env: { REPRISE_DEMO_SERVER: cue } });
  }

  sidecarPaths(): string[] {
    if (!existsSync(this.reviews)) return [];
    return readdirSync(this.reviews)
      .filter((name) => name.endsWith(".session.json"))
      .map((name) => join(this.reviews, name));
  }

  /** Oldest first. */
  sidecars(): Record<string, any>[] {
    return this.sidecarPaths()
      .map((path) => JSON.parse(readFileSync(path, "utf8")) as Record<string, any>)
      .toSorted((one, other) => (one["started_at"] < other["started_at"] ? -1 : 1));
  }

  /** Every line of all transcripts, oldest first; each must be JSON. */
  transcript(): Record<string, any>[] {
    return this.sidecars().flatMap((sidecar) =>
      readFileSync(join(this.reviews, sidecar["transcript_path"]), "utf8")
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line) as Record<string, any>),
    );
  }

  /** What was sent to Codex by this method. */
  sent(method: string): Record<string, any>[] {
    return this.transcript()
      .filter(({ dir, message }) => dir === "out" && message.method === method)
      .map(({ message }) => message.params as Record<string, any>);
  }

  /** The messages that Codex got, oldest first, by its own account. */
  prompts(): string[] {
    const told = this.sent("turn/start").map(({ input }) => String(input[0].text));
    const heard = this.journalEntries().filter(({ event }) => event === "message");
    const digests = told.map((text) => createHash("sha256").update(text).digest("hex"));
    if (heard.map(({ sha256 }) => sha256).join() !== digests.join())
      throw new Error("Codex heard something else");
    return told;
  }
}

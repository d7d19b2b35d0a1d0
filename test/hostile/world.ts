/**
 * A machine whose every record holds hostile text: agents' output, messages and failures, titles and bodies of issues
 * from three sources, review comments, runbooks, directories, files; and the commands that print it.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { IssueBox } from "../e2e/issue-box.ts";
import { ENGINES } from "../e2e/sandbox.ts";
import type { FakeGitHub } from "../github-server.ts";
import { RAW_BYTES } from "./strings.ts";

export interface Command {
  readonly args: readonly string[];
  /** It prints one JSON object with `--json` too. */
  readonly json?: true;
}

export class World extends IssueBox {
  readonly #strings: readonly string[];
  readonly #github: FakeGitHub;
  readonly #script = join(this.root, "script.jsonl");
  readonly evilCwd: string;

  constructor(strings: readonly string[], github: FakeGitHub) {
    super();
    this.git("remote", "add", "origin", "https://github.com/acme/shop.git");
    this.#strings = strings;
    this.#github = github;
    this.evilCwd = join(this.root, `${fileName(strings)}.d`);
    mkdirSync(this.evilCwd);
    this.#writeScript();
    this.#writeIssues();
    this.#writeComments();
    this.#writeRunbooks();
    for (const engine of ENGINES) writeFileSync(this.#output(engine), this.#spoken(engine));
  }

  /** The basis of everything else: a run that printed all of it and failed, a run that wrote bytes, and a batch. */
  async begin(): Promise<{ handle: string; bytes: string }> {
    const env = { REPRISE_DEMO_SCRIPT: this.#script };
    const failed = await this.json(["start", "demo", "--stdin", "--env", `EVIL=${this.argument()}`], {
      env,
      cwd: this.evilCwd,
      stdin: utf8(this.#strings.join(" ").replaceAll("\0", "")),
    });
    writeFileSync(
      join(this.root, "bytes"),
      Buffer.concat(RAW_BYTES.flatMap((one) => [one, Buffer.from("\n")])),
    );
    this.program("codex", `cat '${this.root}/bytes'; cat '${this.root}/bytes' >&2; exit 1`);
    const bytes = await this.json(["start", "codex", "x"]);
    this.commit();
    await this.batch("--max-issues", "1", "--source", "markdown");
    return { handle: String(failed["handle"]), bytes: String(bytes["handle"]) };
  }

  /** A string that an argument can hold. */
  argument(at = 0): string {
    const some = this.#strings.slice(at * 7, at * 7 + 40).join("");
    return utf8(some.replaceAll("\0", "")).slice(0, 2_000) || "x";
  }

  live(): { readonly args: readonly string[]; readonly env: Record<string, string> } {
    return {
      args: ["start", "demo", this.argument(1).replace(/^-+/, "")],
      env: { REPRISE_DEMO_SCRIPT: this.#script },
    };
  }

  commands({ handle, bytes }: { readonly handle: string; readonly bytes: string }): readonly Command[] {
    const github = ["--source", "github", "--repo", "acme/shop", "--api-url", this.#github.url];
    const comments = ["review", "acme/shop#42", "--comments", join(this.root, "comments.jsonl"), "--export"];
    const evil = this.argument(2);
    return [
      { args: ["list"], json: true },
      { args: ["show", handle], json: true },
      { args: ["show", handle, "--attempt", "1"], json: true },
      { args: ["show", bytes], json: true },
      ...["pty-output", "stderr", "events"].map((stream) => ({
        args: ["logs", handle, "--plain", "--stream", stream],
      })),
      { args: ["logs", handle] },
      { args: ["logs", handle, "--json"] },
      { args: ["logs", bytes] },
      { args: ["logs", bytes, "--stream", "stdout"] },
      { args: ["logs", handle, "--redacted"] },
      { args: ["logs", bytes, "--plain"] },
      { args: ["resume", handle, "--dry-run", "--", evil] },
      { args: ["adopt", "demo", "--all"], json: true },
      { args: ["doctor"], json: true },
      { args: ["prune", "--older-than", "1s", "--dry-run"], json: true },
      ...ENGINES.map((engine) => ({
        args: ["explain", "--engine", engine, this.#output(engine)],
        json: true as const,
      })),
      { args: ["explain", "--engine", "demo", "--stderr", join(this.root, "bytes")], json: true },
      { args: ["issues", "list", "--all", "--source", "beads"], json: true },
      { args: ["issues", "show", "a-1", "--source", "beads"], json: true },
      { args: ["issues", "list", "--all", "--source", "markdown"], json: true },
      { args: ["issues", "show", "m-1", "--source", "markdown"], json: true },
      { args: ["issues", "list", "--all", ...github], json: true },
      { args: ["issues", "show", "1", ...github], json: true },
      { args: ["issues", "list", ...github.with(3, "acme/broken")], json: true },
      { args: ["issues", "sessions"], json: true },
      { args: ["issues", "status"], json: true },
      { args: ["issues", "clean", "--source", "markdown", "--dry-run"], json: true },
      { args: [...comments, "markdown"] },
      { args: [...comments, "jsonl"] },
      { args: ["runbook", "check", join(this.root, "bad.toml")], json: true },
      { args: ["runbook", "check", join(this.root, "good.toml")], json: true },
      { args: ["runbook", "check", join(this.root, "good.toml"), "--explain", "agent.a", "on_idle"] },
      { args: ["status"], json: true },
      { args: ["agent", "list", "--all"], json: true },
      { args: ["decisions", "list", "--all"], json: true },
      { args: ["pipeline", "list", "--all"], json: true },
      { args: ["daemon", "status"], json: true },
      { args: ["daemon", "logs"] },
      ...this.#faults(evil),
    ];
  }

  /** Refusals repeat what they were given. */
  #faults(evil: string): readonly Command[] {
    const one = evil.replace(/^-+/, "x");
    return [
      { args: [one] },
      { args: ["list", `--${one}`] },
      { args: ["list", "--engine", one] },
      { args: ["list", "--limit", one] },
      { args: ["show", one], json: true },
      { args: ["start", one, "x"], json: true },
      { args: ["start", "demo", "x", "--cwd", one], json: true },
      { args: ["start", "demo", "x", "--name", one], json: true },
      { args: ["start", "demo", "x", "--timeout", one], json: true },
      { args: ["start", "demo", "x", "--env", one], json: true },
      { args: ["start", "demo", "--message-file", one], json: true },
      { args: ["adopt", "demo", one], json: true },
      { args: ["agent", "show", one], json: true },
      { args: ["agent", "run", one], json: true },
      { args: ["decisions", "show", one], json: true },
      { args: ["pipeline", "show", one], json: true },
      { args: ["issues", "show", one, "--source", "beads"], json: true },
      { args: ["issues", "list", "--source", one], json: true },
      { args: ["issues", "list", "--repo", one], json: true },
      { args: ["review", one, "--export", "jsonl"] },
      { args: ["runbook", "check", one], json: true },
      { args: ["explain", "--engine", one] },
      { args: ["explain", "--engine", "demo", one] },
      { args: ["prune", "--older-than", one], json: true },
    ];
  }

  #writeScript(): void {
    const half = Math.ceil(this.#strings.length / 2);
    const steps: object[] = [
      { step: "session" },
      { step: "user" },
      { step: "begin" },
      { step: "text", text: `${this.#strings.join("\n")}\n` },
      { step: "stderr", text: this.#strings.slice(0, half).join("\n") },
      { step: "print", text: utf8(this.#strings.slice(half).join("\n")) },
      ...this.#strings.slice(0, 30).map((text) => ({ step: "tool", name: text, text })),
      ...this.#strings
        .slice(30, 60)
        .map((text) => ({ step: "print", text: JSON.stringify({ type: text, [text]: text }) })),
      {
        step: "print",
        text: JSON.stringify({
          type: "turn.ended",
          result: "failed",
          error: { code: "rate_limited", message: this.#strings.join(" ") },
        }),
      },
      { step: "exit", code: 1 },
    ];
    writeFileSync(this.#script, steps.map((step) => JSON.stringify(step)).join("\n"));
  }

  #writeIssues(): void {
    const beads = this.#strings.map((text, at) =>
      JSON.stringify({
        id: `a-${at}`,
        title: text === "" ? "x" : `${at} ${text}`,
        description: text,
        status: "open",
        priority: 1,
        issue_type: text,
        labels: [text],
        assignee: text,
      }),
    );
    mkdirSync(join(this.cwd, ".beads"), { recursive: true });
    writeFileSync(join(this.cwd, ".beads", "issues.jsonl"), `${beads.join("\n")}\n`);
    for (const at of [1, 2]) {
      const title = JSON.stringify(
        `${at} ${this.#strings.slice(at * 20, at * 20 + 20).join("")}`.replaceAll(/[\n\r]/g, " "),
      );
      writeFileSync(
        join(this.cwd, "issues", `m-${at}.md`),
        utf8(
          `---\ntitle: ${title}\nlabels: [${title}]\n---\n${this.#strings.join("\n").replaceAll("\0", "")}\n`,
        ),
      );
    }
    this.#github.issues = this.#strings.slice(0, 90).map((text, at) => ({
      number: at + 1,
      title: `${at} ${text}`,
      body: this.#strings.join("\n"),
      state: "open" as const,
      labels: [text],
      comments: [],
    }));
    const message = this.#strings.join(" ");
    this.#github.answer = ({ path }) =>
      path.includes("acme/broken") ? { status: 422, headers: {}, body: { message } } : undefined;
  }

  #writeComments(): void {
    const lines = this.#strings.map((text, at) =>
      JSON.stringify({
        id: at + 1,
        body: text === "" ? "x" : text,
        author: text || "a",
        author_association: "MEMBER",
        file_path: text || "a",
        line_number: 1,
        diff_hunk: text,
        created_at: "2026-04-14T16:00:49Z",
      }),
    );
    writeFileSync(join(this.root, "comments.jsonl"), `${lines.join("\n")}\n`);
  }

  #writeRunbooks(): void {
    const quoted = (text: string) =>
      JSON.stringify(utf8(text.replaceAll("\0", ""))).replaceAll("\u007f", "\\u007f");
    const all = quoted(this.#strings.slice(0, 200).join(" "));
    const good = `[agent.a]\nengine = "demo"\nprompt = ${all}\non_idle = { action = "nudge", message = ${all} }\n`;
    writeFileSync(join(this.root, "good.toml"), good);
    const keys = this.#strings.slice(0, 60).map((text, at) => `${quoted(`${at}${text}`)} = ${quoted(text)}`);
    writeFileSync(join(this.root, "bad.toml"), `${good}${keys.join("\n")}\n`);
  }

  #output(engine: string): string {
    return join(this.root, `${engine}.out`);
  }

  /** Each string where that engine prints its own text, and as a separate line. */
  #spoken(engine: string): string {
    const lines = this.#strings.flatMap((text) => {
      const error = { message: text, code: text, name: text, data: { message: text } };
      return [
        { type: engine === "codex" ? "turn.failed" : "error", error, message: text },
        { type: "item.completed", item: { type: "agent_message", id: text, text } },
        {
          type: "assistant",
          message: {
            content: [
              { type: "text", text },
              { type: "tool_use", id: text, name: text, input: { command: text } },
            ],
          },
        },
        { type: "result", subtype: "success", is_error: true, result: text, session_id: text },
        { type: text, text },
      ];
    });
    return `${lines.map((line) => JSON.stringify(line)).join("\n")}\n${utf8(this.#strings.join("\n"))}\n`;
  }
}

/** Halves of characters become what every decoder makes of them. */
function utf8(text: string): string {
  return Buffer.from(text).toString();
}

function fileName(strings: readonly string[]): string {
  const joined = strings.slice(0, 60).join("").replaceAll(/[/\0]/g, "");
  return Buffer.from(joined).subarray(0, 180).toString().replaceAll("\ufffd", "");
}

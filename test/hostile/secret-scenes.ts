/**
 * Every command, with secrets at every door. `secrets.ts` judges the output of a scene and the files it leaves behind.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createConnection } from "node:net";
import { join } from "node:path";
import { AgentBox } from "../e2e/agent-box.ts";
import { IssueBox } from "../e2e/issue-box.ts";
import { ReviewBox } from "../e2e/review-box.ts";
import { ENGINES, type Result, type RunOptions, Sandbox } from "../e2e/sandbox.ts";
import { startGitHub } from "../github-server.ts";
import { type Canaries, noteCalls } from "./canaries.ts";

/** One state directory and the output about it. */
export interface Scene {
  readonly name: string;
  readonly box: Sandbox;
  /** What we said: a command or a reply, and its text. What an agent itself printed is not in it. */
  readonly said: readonly (readonly [by: string, text: string | Buffer])[];
  /** Exact copies of what an agent printed, and what of them must be in its tape. */
  readonly tapes: readonly (readonly [path: string, holds: string])[];
}

export const SCENES: readonly ((canaries: Canaries, short: boolean) => Promise<Scene>)[] = [
  runs,
  supervised,
  issues,
  reviews,
];

/** Where the calls of short-lived programs are written down. */
export const callsOf = (box: Sandbox): string => join(box.root, "calls");

/** A box that notes what its commands say, and how its programs, which are all there by now, are called. */
function noting(box: Sandbox, env: Record<string, string>) {
  const said: [string, string | Buffer][] = [];
  noteCalls(box.bin, ["git", "tmux", "notify-send"], callsOf(box));
  const run = async (args: readonly string[], options: RunOptions): Promise<Result> => {
    const result = await box.run(args, { ...options, env: { ...env, ...options.env } });
    // A command that broke down has kept every secret.
    if (result.code === 70) throw new Error(`${args.slice(0, 2).join(" ")} broke down`);
    return result;
  };
  const ask = async (args: readonly string[], options: RunOptions = {}): Promise<Result> => {
    const result = await run(args, options);
    said.push([args.slice(0, 3).join(" "), result.stdout + result.stderr]);
    return result;
  };
  /** stdout is the agent's own here. */
  const start = (args: readonly string[], options: RunOptions = {}): Promise<Result> =>
    run([...args, "--quiet"], options);
  return { said, ask, start };
}

/** Prints what an agent could know: as text, as tool output, as JSON, encoded, as an error and on stderr. */
function talkative(of: Canaries["of"], more = ""): string {
  const dotenv = `DATABASE_PASSWORD=${of.dotenv}`;
  return `
case "$1" in --version) echo "codex-cli 0.166.0"; exit 0;; esac
cat >/dev/null
echo '{"type":"thread.started","thread_id":"01a1ddb9-2399-7159-8609-8dfeba0fc993"}'
echo '{"type":"turn.started"}'
say() { printf '{"type":"item.completed","item":{"id":"i1","type":"agent_message","text":"%s"}}\\n' "$1"; }
say "$OPENAI_API_KEY and $LAB_TOKEN and $CONFIG_SECRET and $RUNBOOK_TOKEN"
say "${dotenv}"
say "$(printf %s "$SIGNING_SECRET" | base64 -w0)"
say "$(printf %s "$OPENAI_API_KEY" | sed 's/.\\{22\\}/&\\\\u001b[01;31m\\\\u001b[K/')"
printf '{"type":"item.completed","item":{"id":"i2","type":"command_execution","command":"cat .env # %s","aggregated_output":"${dotenv}","exit_code":0,"status":"completed"}}\\n' "$OPENAI_API_KEY"
echo '{"type":"unheard.of","api_key":"${of.json}","nested":{"password":"${of.json}"}}'
printf '%s\\n' "stderr: $OPENAI_API_KEY $LAB_TOKEN ${of.stderr}" >&2
${more}`;
}

const FAILS = (of: Canaries["of"]) => `
echo '{"type":"error","message":"bad key ${of.prompt}"}'
echo '{"type":"turn.failed","error":{"message":"401 Unauthorized: bad key ${of.prompt}"}}'
exit 1`;
const WORKS = `printf '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}\\n'`;

const messageOf = (of: Canaries["of"]) =>
  `use ${of.prompt} with Authorization: Bearer ${of.header} at https://user:${of.url}@example.org/ and go on`;

async function runs({ of }: Canaries, short: boolean): Promise<Scene> {
  const box = new Sandbox();
  const env = {
    OPENAI_API_KEY: of.environment,
    SIGNING_SECRET: of.base64,
    GITHUB_TOKEN: of.github,
    LAB_TOKEN: of.given,
  };
  mkdirSync(join(box.home, ".config/reprise"), { recursive: true });
  writeFileSync(
    join(box.home, ".config/reprise/config.toml"),
    `[engines.codex]\nenv = { CONFIG_SECRET = "${of.config}" }\n`,
  );
  box.program("codex", talkative(of, FAILS(of)));
  const { said, ask, start } = noting(box, env);
  const message = messageOf(of);
  const native = ["--", "--api-key", of.flag, `--auth-token=${of.flagEquals}`];
  await start(["start", "codex", message, "--env", `LAB_TOKEN=${of.given}`, "--name", `for ${of.prompt}`]);
  await start(["start", "codex", message, ...native]);
  const [first = "", second = ""] = box.runDirectories().map((path) => path.slice(-8));
  await start(["resume", first, message]);
  await ask(["start", "codex", "--detach", message]);
  await ask(["resume", second, message]);
  await ask(["start", "iflow", message]);
  // `text` is what the agent said.
  const session = await start(["start", "demo", "--json", message]);
  const { handle = "" } = JSON.parse(session.stdout) as { handle?: string };
  for (const engine of short ? [] : ENGINES.filter((name) => name !== "codex" && name !== "iflow")) {
    const one = await start(["start", engine, "--json", message]);
    await start(["resume", (JSON.parse(one.stdout) as { handle: string }).handle, "--json", message]);
  }
  const asks: string[][] = [
    ["list"],
    ["list", "--json"],
    ["show", first],
    ["show", first, "--json"],
    ["logs", first, "--redacted"],
    ["logs", first, "--redacted", "--stream", "stderr"],
    ["logs", first, "--stream", "events"],
    ["resume", first, "--dry-run"],
    ["resume", handle, "--dry-run", "--json"],
    ["adopt", "codex"],
    ["doctor"],
    ["doctor", "--json"],
    ["stop", first],
    ["frobnicate", message],
    ["start", "codex", message, `--api-key=${of.flag}`],
    ["start", "codex", message, `--api-key=${of.flag}`, "--json"],
    ["resume", of.prompt],
    ["export", first, "--json", "--output", join(box.root, "bundle.tar.gz")],
    ["completion", "bash"],
    ["runbook", "list"],
    ["prune", "--older-than", "30d", "--dry-run"],
  ];
  for (const args of asks) await ask(args);
  said.push(["the bundle", execFileSync("tar", ["xzOf", join(box.root, "bundle.tar.gz")])]);
  const [directory = ""] = box.runDirectories();
  const attempt = join(directory, "attempts/1");
  const tapes = [of.environment, of.given, of.config, of.dotenv, of.json, of.prompt].map(
    (value) => [join(attempt, "stdout.log"), value] as const,
  );
  return { name: "runs", box, said, tapes: [...tapes, [join(attempt, "stderr.log"), of.stderr]] };
}

async function supervised({ of }: Canaries): Promise<Scene> {
  const box = new AgentBox();
  const env = {
    OPENAI_API_KEY: of.environment,
    SIGNING_SECRET: of.base64,
    LAB_TOKEN: of.given,
    RUNBOOK_TOKEN: of.runbook,
  };
  const told = join(box.root, "told");
  const command = box.program("tell-me", `cat >> '${told}'`);
  mkdirSync(join(box.home, ".config/reprise"), { recursive: true });
  writeFileSync(
    join(box.home, ".config/reprise/config.toml"),
    `[notify]\ncommand = ["${command}"]\n[engines.codex]\nenv = { CONFIG_SECRET = "${of.config}" }\n`,
  );
  box.program("codex", talkative(of, WORKS));
  const { said, ask } = noting(box, env);
  const gate = join(box.cwd, "gate.sh");
  writeFileSync(gate, `echo "tests say ${of.gate} $OPENAI_API_KEY"\nexit 1\n`);
  const run = `["sh", "${gate}"]`;
  box.runbook(`
[agent.worker]
engine = "codex"
mode = "headless"
prompt = "go on"
env = { RUNBOOK_TOKEN = "${of.runbook}" }
on_idle = [{ action = "gate", run = ${run} }, { action = "escalate" }]
on_error = { action = "escalate" }
[agent.asked]
engine = "codex"
mode = "headless"
vars = { task = "x" }
prompt = "\${var.task}"
on_idle = { action = "nudge", message = "\${var.task}" }
[pipeline.asked]
vars = { task = "x" }
step = [{ name = "fix", run = ["true", "\${var.task}"] }]
[pipeline.ci]
step = [{ name = "fix", agent = "worker" }, { name = "test", run = ${run} }]
[pipeline.secret]
step = [{ name = "test", run = ["sh", "${gate}", "${of.command}"] }]
[agent.secret]
engine = "codex"
prompt = "go"
on_idle = { action = "gate", run = ["sh", "${gate}", "--token=${of.command}"] }
`);
  const { stdout } = await ask(["agent", "run", "worker", "--trust-cwd", "--json"]);
  const { id } = JSON.parse(stdout) as { id: string };
  await ask(["pipeline", "run", "ci", "--trust-cwd", "--json"]);
  await ask(["pipeline", "run", "secret", "--trust-cwd", "--json"]);
  await ask(["agent", "run", "secret", "--trust-cwd", "--json"]);
  await box.until(
    "somebody is told of the decision",
    () => existsSync(told) && readFileSync(told).length > 0,
  );
  const asks: string[][] = [
    ["agent", "list", "--json"],
    ["agent", "show", id, "--json"],
    ["agent", "show", id],
    ["decisions", "list", "--json"],
    ["decisions", "show", id],
    ["decisions", "show", id, "--json"],
    ["status"],
    ["status", "--json"],
    ["pipeline", "list", "--all", "--json"],
    ["daemon", "status", "--json"],
    ["daemon", "logs"],
    ["runbook", "check", "--json"],
    ["agent", "send", id, messageOf(of)],
    ["agent", "stop", id],
    ["export", id, "--json", "--output", join(box.root, "bundle.tar.gz")],
  ];
  // Known by the variable alone. A later message would have to be stored.
  for (const args of [
    ["agent", "run", "asked", "--var", `task=use ${of.given}`, "--trust-cwd"],
    ["pipeline", "run", "asked", "--var", `task=use ${of.given}`, "--trust-cwd"],
    ["agent", "send", id, `use ${of.given}`],
    ["decisions", "resolve", id, "1", "-m", `use ${of.given}`],
  ]) {
    const { code } = await ask(args);
    if (code !== 2) throw new Error(`${args.slice(0, 2).join(" ")} with a secret was not refused`);
  }
  for (const method of ["status", "poke", "resume", "stop", "nothing-like-it"])
    said.push([`the daemon's reply to ${method}`, await reply(box, method, { id })]);
  for (const args of asks) await ask(args);
  said.push(["the notification", readFileSync(told)]);
  said.push(["the bundle", execFileSync("tar", ["xzOf", join(box.root, "bundle.tar.gz")])]);
  return { name: "supervised agents", box, said, tapes: [] };
}

/** By hand, over the socket. */
function reply(box: AgentBox, method: string, params: object): Promise<string> {
  const token = readFileSync(join(box.state, "run/d.token"), "utf8").trim();
  const socket = createConnection(join(box.state, "run/d.sock"));
  socket.write(`${JSON.stringify({ token })}\n${JSON.stringify({ id: 1, method, params })}\n`);
  let text = "";
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`the daemon did not answer to ${method}`)), 20_000);
    socket.on("error", reject);
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString();
      if (!text.includes('"id":1')) return;
      clearTimeout(late);
      socket.destroy();
      resolve(text);
    });
  });
}

async function issues({ of }: Canaries): Promise<Scene> {
  const box = new IssueBox();
  const env = { OPENAI_API_KEY: of.environment, GITHUB_TOKEN: of.github };
  const { said, ask } = noting(box, env);
  box.issue("a", `@@write:a.txt the password is at https://user:${of.url}@example.org/`);
  const script = join(box.root, "gate.sh");
  writeFileSync(script, `echo "${of.gate} $OPENAI_API_KEY $GITHUB_TOKEN" >&2\nexit 1\n`);
  box.gate(`sh ${script} ${of.command}`);
  box.commit();
  await ask(box.batchArgs("--json"));
  await using github = await startGitHub();
  const issue = { number: 1, title: "one", state: "open" as const, labels: [], comments: [] };
  github.issues = [{ ...issue, body: `key ${of.prompt}`, association: "MEMBER" }];
  await ask(box.batchArgs("--repo", "acme/shop", "--api-url", github.url));
  github.answer = () => ({ status: 401, body: { message: `Bad credentials ${of.github}` } });
  await ask(box.batchArgs("--repo", "acme/shop", "--api-url", github.url, "--json"));
  for (const verb of ["status", "sessions", "list"]) await ask(["issues", verb, "--json"]);
  await ask(["issues", "run", "--resume", "--dry-run", "--engine", "demo", "--trust-cwd"]);
  // What was written into the repository and to GitHub.
  said.push(["the commits", box.git("log", "--all", "--format=%an %ae %s %b")]);
  said.push(["the comments on GitHub", github.issues.flatMap(({ comments }) => comments).join("\n")]);
  return { name: "issues", box, said, tapes: [] };
}

async function reviews({ of }: Canaries): Promise<Scene> {
  const box = new ReviewBox();
  const env = { OPENAI_API_KEY: of.environment, GITHUB_TOKEN: of.github };
  const { said, ask } = noting(box, env);
  await using github = await startGitHub();
  github.comments = [{ id: 1, body: `Use ${of.prompt} here: https://user:${of.url}@example.org/` }];
  const at = ["--api-url", github.url];
  // Codex's input and output are in the transcript and the tape.
  await ask(["review", "acme/shop#42", "--run", "--json", ...at]);
  await ask(["review", "acme/shop#42", "--run", "--resume", "always", "--json", ...at]);
  github.answer = () => ({ status: 401, body: { message: `Bad credentials ${of.github}` } });
  await ask(["review", "acme/shop#42", "--export", "jsonl", ...at]);
  await ask([
    "review",
    "acme/shop#42",
    "--export",
    "jsonl",
    "--token",
    of.github,
    "--api-url",
    "http://example.org",
  ]);
  await ask([
    "review",
    "acme/shop#42",
    "--export",
    "jsonl",
    "--api-url",
    `http://user:${of.url}@127.0.0.1:1`,
  ]);
  await ask(["list", "--json"]);
  const [handle] = box.runDirectories().map((path) => path.slice(-8));
  if (handle !== undefined) await ask(["show", handle, "--json"]);
  if (github.asked.every(({ token }) => token?.includes(of.github) !== true))
    throw new Error("GitHub was never shown the token, so nothing was tried");
  return { name: "reviews", box, said, tapes: [] };
}

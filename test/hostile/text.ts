/**
 * Text is shown, never obeyed: hostile strings in every record, through every command that prints, into an emulator and
 * into a real tmux. Title, clipboard, modes, cursor and keyboard stay as they were, and `--json` stays JSON.
 */
import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { spawn } from "@lydell/node-pty";
import type { Promised, Scale, Verdict } from "../crash/promise.ts";
import { AgentBox } from "../e2e/agent-box.ts";
import { CLI, type Sandbox, until } from "../e2e/sandbox.ts";
import { HAS_TMUX, Screen } from "../e2e/screen.ts";
import { startGitHub } from "../github-server.ts";
import { Emulator } from "./emulator.ts";
import { CORPUS, hostileStrings } from "./strings.ts";
import { World } from "./world.ts";

export const text: Promised = {
  id: "P8",
  what: "hostile strings in records of every kind",
  wrong: "obeyed by a terminal",
  means: "Terminals show text from agents, issues, comments and files and never obey it; `--json` stays JSON",
  check,
};

const FULL = 100_000;
const SHORT = 2_000;
const LANES = 2;
const WORST_MS = 60_000;
/** How many of the corpus the emulator must notice, or it could not fail. */
const NOTICED = 40;

interface Tally {
  readonly broken: string[];
  outputs: number;
  bytes: number;
}

async function check({ short, seed, progress }: Scale): Promise<Verdict> {
  const count = short ? SHORT : FULL;
  const strings = hostileStrings(seed, count);
  const tally: Tally = { broken: [], outputs: 0, bytes: 0 };
  const noticed = await noticedByEmulator();
  if (noticed < NOTICED) tally.broken.push(`the emulator notices only ${noticed} of the corpus`);
  const batch = short ? 2_000 : 10_000;
  const batches = Array.from({ length: count / batch }, (_, at) =>
    strings.slice(at * batch, (at + 1) * batch),
  );
  let begun = 0;
  const lane = async () => {
    for (let at = begun; at < batches.length; at = begun) {
      begun += 1;
      progress(`batch ${at + 1} of ${batches.length}`);
      await throughCommands(batches[at] ?? [], at, tally);
    }
  };
  await Promise.all([supervised(strings, tally), ...Array.from({ length: LANES }, lane)]);
  const untried = HAS_TMUX ? [] : ["a real terminal: there is no tmux here"];
  const figures = {
    "outputs looked at": tally.outputs,
    "bytes of output": tally.bytes,
    corpus: CORPUS.length,
  };
  return { tried: count, broken: tally.broken, untried, figures };
}

async function noticedByEmulator(): Promise<number> {
  let noticed = 0;
  for (const one of CORPUS) {
    const complaints = await new Emulator().complaints(one, true);
    if (complaints.some((complaint) => !complaint.startsWith("raw"))) noticed += 1;
  }
  return noticed;
}

/** Even batches through pipes and with `--json`, odd ones on a terminal; every tenth in tmux too. */
async function throughCommands(strings: readonly string[], at: number, tally: Tally): Promise<void> {
  await using github = await startGitHub();
  using world = new World(strings, github);
  const runs = await world.begin();
  const look = looker(world, tally);
  const commands = world.commands(runs);
  const { args, env } = world.live();
  await look.onTerminal(args, env);
  for (const command of commands) {
    if (at % 2 === 0) await look.inPipe(command.args);
    else await look.onTerminal(command.args);
    if (command.json === true && at % 2 === 0) await look.asJson(command.args);
  }
  await look.onTerminal(["logs", runs.handle]);
  if (!HAS_TMUX || at % 10 !== 0) return;
  const looks = [
    "list",
    `show ${runs.handle}`,
    `logs ${runs.handle}`,
    `logs ${runs.bytes}`,
    "issues list --all",
    "issues show m-1 --source markdown",
  ];
  await inTmux(world, looks, tally);
}

/** Runs one command and lets the emulator look at what came out of it. */
function looker(box: Sandbox, tally: Tally) {
  const emulator = new Emulator();
  const judge = async (args: readonly string[], output: string, terminal: boolean) => {
    tally.outputs += 1;
    tally.bytes += output.length;
    const [first] = await emulator.complaints(output, terminal);
    if (first !== undefined) tally.broken.push(`${shown(args)}: ${first}`);
    if (/this is a bug|\n\s+at .*:\d+:\d+\)?\n/.test(output))
      tally.broken.push(`${shown(args)}: a stack trace`);
  };
  return {
    async inPipe(args: readonly string[]): Promise<void> {
      const { stdout, stderr, code } = await box.run(args);
      if (code === 70) tally.broken.push(`${shown(args)}: exit 70`);
      await judge(args, stdout + stderr, false);
    },
    async onTerminal(args: readonly string[], env: Record<string, string> = {}): Promise<void> {
      await judge(args, await printed(box, args, env), true);
    },
    async asJson(args: readonly string[]): Promise<void> {
      const [command = "", ...rest] = args;
      const { stdout } = await box.run([command, ...rest, "--json"]);
      await judge([...args, "--json"], stdout, false);
      try {
        JSON.parse(stdout);
      } catch (error) {
        tally.broken.push(`${shown(args)} --json: ${String(error)}: ${JSON.stringify(stdout.slice(0, 200))}`);
      }
    },
  };
}

function shown(args: readonly string[]): string {
  return JSON.stringify(args.join(" ")).slice(0, 160);
}

/**
 * Keeps the terminal until all was read: when its last process ends, a busy machine loses output that is not read soon.
 */
const AND_WAIT = '"$@"; printf %s "$END"; exec sleep 1000';

/** The output of a command on a separate terminal. */
function printed(box: Sandbox, args: readonly string[], env: Record<string, string>): Promise<string> {
  const end = `end-${randomUUID()}`;
  const child = spawn("sh", ["-c", AND_WAIT, "sh", process.execPath, CLI, ...args], {
    cols: 100,
    rows: 40,
    cwd: box.cwd,
    env: box.env({ ...env, END: end }),
    encoding: null,
  });
  const chunks: Buffer[] = [];
  let tail = Buffer.alloc(0);
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`${shown(args)} does not end`)), WORST_MS);
    child.onExit(() => {
      clearTimeout(late);
      reject(new Error(`${shown(args)}: its terminal ended before it`));
    });
    child.onData((chunk) => {
      chunks.push(Buffer.from(chunk));
      tail = Buffer.concat([tail, Buffer.from(chunk)]).subarray(-end.length);
      if (tail.toString("latin1") !== end) return;
      clearTimeout(late);
      resolve(Buffer.concat(chunks).toString().slice(0, -end.length));
      child.kill("SIGKILL");
    });
  });
}

const FACTS =
  "#{pane_title} #{cursor_flag} #{alternate_on} #{mouse_any_flag} #{keypad_cursor_flag} #{keypad_flag} #{insert_flag} #{origin_flag} #{wrap_flag}";

async function inTmux(box: Sandbox, commands: readonly string[], tally: Tally): Promise<void> {
  using screen = new Screen(box);
  screen.type("PS1='READY> '");
  await screen.shows(/^READY>/m);
  const before = screen.facts(FACTS);
  const judge = (what: string) => {
    tally.outputs += 1;
    const after = screen.facts(FACTS);
    if (after !== before) tally.broken.push(`${what} in tmux: ${after} instead of ${before}`);
    const clipboard = screen.tmux("show-buffer");
    if (clipboard !== "") tally.broken.push(`${what} in tmux: the clipboard is ${JSON.stringify(clipboard)}`);
  };
  for (const command of commands) {
    await screen.command(`reprise ${command}`, WORST_MS);
    const last = (await screen.shows(/READY>[^\n]*\s*$/)).trimEnd().split("\n").at(-1);
    if (last !== "READY>") tally.broken.push(`${command} in tmux: ${JSON.stringify(last)} is typed`);
    judge(command);
  }
  screen.clear();
  screen.type(
    `reprise review acme/shop#42 --comments '${join(box.root, "comments.jsonl")}'; echo "ENDED $?"`,
  );
  await until("the review UI", () => screen.facts("#{alternate_on}") === "1", WORST_MS);
  for (const key of ["j", "j", "Enter", "j", "j", "j", "Escape"]) screen.key(key);
  screen.key("q");
  await screen.shows(/^ENDED \d+$/m, WORST_MS);
  judge("the review UI");
}

/** Supervised agents, their questions, and the supervisor's output about them. */
async function supervised(strings: readonly string[], tally: Tally): Promise<void> {
  const some = strings.slice(0, 400);
  await using box = new AgentBox();
  const script = join(box.root, "script.jsonl");
  const failed = { type: "turn.ended", result: "failed", error: { code: "auth", message: some.join(" ") } };
  const steps: object[] = [
    { step: "session" },
    { step: "user" },
    { step: "begin" },
    { step: "text", text: `${some.join("\n")}\n` },
    { step: "stderr", text: some.join("\n") },
    { step: "print", text: JSON.stringify(failed) },
    { step: "exit", code: 1 },
  ];
  writeFileSync(script, steps.map((step) => JSON.stringify(step)).join("\n"));
  const words = JSON.stringify(Buffer.from(some.join(" ").replaceAll("\0", "")).toString()).replaceAll(
    "\u007f",
    "\\u007f",
  );
  box.runbook(
    `[agent.evil]\nengine = "demo"\nprompt = ${words}\nenv = { REPRISE_DEMO_SCRIPT = ${JSON.stringify(script)} }\non_error = { action = "escalate", message = ${words} }\non_dead = { action = "escalate", message = ${words} }\n`,
  );
  const id = await box.start("evil");
  await box.shown(id, "asked", ({ view }) => view.decision !== null, WORST_MS);
  const look = looker(box, tally);
  const commands = [
    ["agent", "list", "--all"],
    ["agent", "show", id],
    ["decisions", "list", "--all"],
    ["decisions", "show", id],
    ["status"],
    ["show", id],
  ];
  for (const args of commands) {
    await look.inPipe(args);
    await look.onTerminal(args);
    await look.asJson(args);
  }
  for (const args of [
    ["agent", "logs", id],
    ["agent", "peek", id],
    ["daemon", "logs"],
  ])
    await look.onTerminal(args);
}

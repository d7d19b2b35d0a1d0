/** Bad input on the command line: arguments, handles, messages, environment. The numbers are those of the list that rules them. */
import { spawnSync } from "node:child_process";
import { symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Sandbox } from "../e2e/sandbox.ts";

export interface Ground {
  readonly box: Sandbox;
  /** Of a run that is complete. */
  readonly handle: string;
  readonly runDirectory: string;
}

export interface Row {
  readonly name: string;
  /** Makes the files that the row needs outside the state directory, and returns the command. */
  readonly args: (ground: Ground) => readonly string[];
  readonly code: number;
  /** Names the mistake, and what to do. */
  readonly says: RegExp;
  /** The mistakes are what was asked for, so they stand on stdout. */
  readonly report?: true;
  readonly stdin?: string | Buffer;
  readonly env?: (ground: Ground) => Record<string, string | undefined>;
  /** A shell calls `"$@"`, which is the command: Node could not make these circumstances. */
  readonly shell?: string;
}

const EVIL = "\u001b]0;owned\u0007\u202e";

function row(name: string, args: readonly string[], code: number, says: RegExp): Row {
  return { name, args: () => args, code, says };
}

const VERBS = [
  "list",
  "show",
  "logs",
  "stop",
  "rm",
  "prune",
  "adopt",
  "doctor",
  "explain",
  "status",
  "resume",
];

const commandLine: readonly Row[] = [
  row("1 an unknown command", ["lsit"], 2, /Did you mean `reprise list`/),
  row("1 an unknown command like none", ["xyzzy-plugh"], 2, /There is no command "xyzzy-plugh".*--help/),
  row("1 an unknown verb", ["agent", "strat"], 2, /strat/),
  row("1 an unknown verb of issues", ["issues", "lsit"], 2, /lsit/),
  ...VERBS.map((verb) => row(`2 an unknown option of ${verb}`, [verb, "--jsno"], 2, /--jsno/)),
  row("2 an unknown option that a terminal would obey", ["list", `--${EVIL}`], 2, /\\x1b\]0;owned/),
  row("3 --limit without a value", ["list", "--limit"], 2, /--limit/),
  row("3 --engine without a value", ["list", "--engine"], 2, /--engine/),
  row("3 --older-than without a value", ["prune", "--older-than"], 2, /--older-than/),
  row("4 --limit twice", ["list", "--limit", "1", "--limit", "2"], 2, /--limit.*once/),
  row("4 --cwd twice", ["start", "demo", "x", "--cwd", ".", "--cwd", "."], 2, /--cwd.*once/),
  ...["-1", "1e309", "0x10", "99999999999", "1.5", "", " ", "NaN", "١٢"].map((value) =>
    row(`5–8 --limit ${JSON.stringify(value)}`, ["list", `--limit=${value}`], 2, /--limit/),
  ),
  ...["0", "-1", "x", "99999999999999999999"].map((value) => ({
    ...row(`8 --attempt ${value}`, [], 2, /--attempt/),
    args: ({ handle }: Ground) => ["show", handle, "--attempt", value],
  })),
  {
    ...row("8 an attempt that there is not", [], 3, /attempt 99/i),
    args: ({ handle }) => ["show", handle, "--attempt", "99"],
  },
  {
    ...row("8 a stream that there is not", [], 2, /pty-output, stdout, stderr/),
    args: ({ handle }) => ["logs", handle, "--stream", "stdin"],
  },
  row("9 an empty engine", ["start", "", "x"], 2, /engine/),
  row("9 an empty --name", ["start", "demo", "x", "--name", ""], 2, /--name/),
  row("9 an empty --cwd", ["start", "demo", "x", "--cwd", ""], 2, /cwd|directory/),
  row("9 a --name of 101 characters", ["start", "demo", "x", "--name", "x".repeat(101)], 2, /--name/),
  row("9 a --name with a line break", ["start", "demo", "x", "--name", "a\nb"], 2, /--name/),
  row("9 a --name with a lone surrogate", ["start", "demo", "x", "--name", "a\u200bb"], 2, /--name/),
  row("13 --cwd that is missing", ["start", "demo", "x", "--cwd", "nowhere"], 2, /nowhere.*does not exist/),
  {
    ...row("14 --cwd that is a file", [], 2, /not a directory/),
    args: ({ box }) => {
      writeFileSync(join(box.root, "a-file"), "");
      return ["start", "demo", "x", "--cwd", join(box.root, "a-file")];
    },
  },
  row("20 --env without =", ["start", "demo", "x", "--env", "A"], 2, /NAME=value/),
  row("21 --env without a name", ["start", "demo", "x", "--env", "=x"], 2, /NAME=value/),
  row("21 --env with a bad name", ["start", "demo", "x", "--env", "A B=x"], 2, /NAME=value|A B/),
  ...["PATH=/x", "LD_PRELOAD=/x.so", "NODE_OPTIONS=--require=/x", "LD_LIBRARY_PATH=/x", "BASH_ENV=/x"].map(
    (value) => row(`22 --env ${value}`, ["start", "demo", "x", "--env", value], 2, /--allow-env/),
  ),
  ...["../../bin/sh", "/bin/sh", "codex;id", "-x", "CODEX", "__proto__", "constructor", "toString"].map(
    (name) => row(`23 the engine ${name}`, ["start", name, "x"], 2, /engine|dash/),
  ),
  row("23 --engine of a prototype", ["list", "--engine", "__proto__"], 2, /__proto__/),
  row("23 --status that there is not", ["list", "--status", "constructor"], 2, /running, completed/),
  row("25 the UI without a terminal", ["start", "demo"], 2, /needs a terminal/),
  row("25 review without a terminal", ["review", "acme/shop#1"], 2, /./),
  row(
    "a duration that is none",
    ["start", "demo", "x", "--timeout", "5 parsecs"],
    2,
    /duration.*such as|--timeout/,
  ),
  row("a duration below zero", ["start", "demo", "x", "--timeout=-5s"], 2, /--timeout/),
  row("a duration beyond all bounds", ["start", "demo", "x", "--timeout", "99999999d"], 2, /--timeout/),
  row("an age that is none", ["prune", "--older-than", "old"], 2, /--older-than/),
  row("no age", ["prune"], 2, /--older-than/),
  row("--mode that there is not", ["start", "demo", "x", "--mode", "tmux"], 2, /auto, pipe/),
  row("--isolate that there is not", ["start", "demo", "x", "--isolate", "vm"], 2, /dir|worktree/),
  row("too many words", ["start", "demo", "fix", "the", "test"], 2, /one argument/),
  row("explain of no engine", ["explain", "--engine", "nope"], 2, /nope/),
  row("explain of a file that is missing", ["explain", "--engine", "demo", "nowhere.txt"], 2, /nowhere\.txt/),
  row("explain of a directory", ["explain", "--engine", "demo", "."], 2, /not a file/),
  row("explain with a bad time", ["explain", "--engine", "demo", "--now", "yesterday"], 2, /--now/),
  row("completion of no shell", ["completion", "tcsh"], 2, /bash, zsh/),
  row("daemon without a verb", ["daemon"], 2, /start/),
  row("daemon with another verb", ["daemon", "restart"], 2, /has no command "restart".*daemon start/),
  row("daemon logs of no lines", ["daemon", "logs", "--lines", "-1"], 2, /--lines/),
  row("runbook with another verb", ["runbook", "run"], 2, /has no command "run".*runbook --help/),
  row("runbook check of a missing file", ["runbook", "list", "nowhere.toml"], 2, /nowhere\.toml|takes/),
  row("adopt of no engine", ["adopt", "nope", "x"], 2, /nope/),
];

/** Not a handle, or an unknown one: every command that takes a handle refuses it. */
const NO_HANDLES: readonly (readonly [name: string, given: string])[] = [
  ["28 a path upwards", "../../etc"],
  ["29 an absolute path", "/etc/passwd"],
  ["30 a path", "a/b"],
  ["31 a dot", "."],
  ["31 two dots", ".."],
  ["34 empty", ""],
  ["35 300 characters", "a".repeat(300)],
  ["36 a device", "nul"],
  ["37 a trailing dot", "deadbeef."],
  ["37 a trailing space", "deadbeef "],
  ["38 with a colon", "dead:beef"],
  ["39 a pattern", "dead*"],
  ["39 a target of tmux", "=deadbeef"],
  ["40 upper case", "DEADBEEF"],
  ["42 zero width", "dead\u200bbeef"],
  ["42 right to left", "\u202edeadbeef"],
  ["43 an emoji", "💥"],
  ["a control sequence", EVIL],
  ["the name of a prototype", "__proto__"],
];

const TAKERS: readonly (readonly string[])[] = [
  ["show"],
  ["logs"],
  ["stop"],
  ["rm"],
  ["resume"],
  ["agent", "show"],
  ["agent", "stop"],
  ["agent", "peek"],
  ["decisions", "show"],
  ["pipeline", "show"],
  ["pipeline", "cancel"],
];

/** Every bad handle with some command, and every command with some bad handle: each pair would prove no more. */
const handles: readonly Row[] = [
  ...NO_HANDLES.map(([name, given], at) => {
    const taker = TAKERS[at % TAKERS.length] ?? [];
    const more = taker[0] === "resume" ? ["go on"] : [];
    // Capital letters make a handle, but an unknown one.
    const code = /^[0-9A-F]{8}$/.test(given) ? 3 : 2;
    return row(`${name}: ${taker.join(" ")}`, [...taker, given, ...more], code, /handle|list --all/);
  }),
  row("32 an option as a handle", ["show", "-rf"], 2, /-r/),
  ...TAKERS.map((taker) =>
    row(
      `unknown: ${taker.join(" ")}`,
      [...taker, "deadbeef", ...(taker[0] === "resume" ? ["go on"] : [])],
      3,
      /deadbeef/,
    ),
  ),
  row("45 --run-dir that is a symlink", [], 8, /is not a directory right below/),
  row(
    "47 --run-dir outside the root",
    ["start", "demo", "x", "--run-dir", "/"],
    8,
    /is not a directory right below/,
  ),
  row("47 --run-dir upwards", ["start", "demo", "x", "--run-dir", "../../.."], 8, /./),
  row("47 --run-dir that is missing", [], 3, /./),
].map((one) => {
  if (one.name.startsWith("45")) return { ...one, args: symlinkArgs };
  if (!one.name.endsWith("that is missing")) return one;
  return {
    ...one,
    args: ({ box }: Ground) => ["start", "demo", "x", "--run-dir", join(box.state, "runs", "nope")],
  };
});

function symlinkArgs({ box, runDirectory }: Ground): readonly string[] {
  const link = join(box.root, `link-${Date.now()}`);
  symlinkSync(runDirectory, link);
  return ["start", "demo", "x", "--run-dir", link];
}

const resumeBy = (name: string, stdin: string | Buffer, says: RegExp): Row => ({
  ...row(name, [], 2, says),
  args: ({ handle }) => ["resume", handle, "--stdin"],
  stdin,
});

const messages: readonly Row[] = [
  resumeBy("56 nothing on stdin", "", /empty/),
  resumeBy("56 blank on stdin", " \n\t ", /empty/),
  resumeBy("58 a zero byte on stdin", "a\0b", /zero byte/),
  resumeBy("57 a lone surrogate on stdin", Buffer.from([0x61, 0xed, 0xa0, 0x80]), /not valid UTF-8/),
  resumeBy("57 an overlong slash on stdin", Buffer.from([0xc0, 0xaf]), /not valid UTF-8/),
  resumeBy("55 10 MB and a byte on stdin", Buffer.alloc(10 * 1024 * 1024 + 1, 0x61), /MB|MiB|long|bytes/),
  {
    ...row("49 a prompt like an option", [], 2, /--stdin or --message-file/),
    args: () => ["start", "demo", "--settings={}"],
  },
  row("a message from two places", ["start", "demo", "x", "--stdin"], 2, /Give the message once/),
  row("a message from a device", ["start", "demo", "--message-file", "/dev/zero"], 2, /not a regular file/),
  {
    ...row("a message from a FIFO", [], 2, /not a regular file/),
    args: ({ box }) => {
      const pipe = join(box.root, "pipe");
      spawnSync("mkfifo", [pipe]);
      return ["start", "demo", "--message-file", pipe];
    },
  },
  {
    ...row("a message from a file that is not text", [], 2, /not valid UTF-8/),
    args: ({ box }) => {
      const file = join(box.root, "binary");
      writeFileSync(file, Buffer.from([0xff, 0xfe, 0x00]));
      return ["start", "demo", "--message-file", file];
    },
  },
];

/** 3.10. Separate state directories: a refused directory must not become one. */
const environment: readonly Row[] = [
  { ...row("REPRISE_HOME is relative", ["list"], 7, /absolute/), env: () => ({ REPRISE_HOME: "state" }) },
  {
    ...row("REPRISE_HOME is a file", ["list"], 8, /not a directory/),
    env: ({ box }) => {
      writeFileSync(join(box.root, "state-file"), "");
      return { REPRISE_HOME: join(box.root, "state-file") };
    },
  },
  {
    ...row("REPRISE_HOME is a symlink", ["list"], 8, /symbolic link/),
    env: ({ box }) => {
      const link = join(box.root, `state-link-${Date.now()}`);
      symlinkSync(box.home, link);
      return { REPRISE_HOME: link };
    },
  },
  {
    ...row("no HOME at all", ["list"], 7, /HOME/),
    env: () => ({ HOME: undefined, REPRISE_HOME: undefined, XDG_STATE_HOME: undefined }),
  },
  {
    ...row("HOME is relative", ["list"], 7, /absolute/),
    env: () => ({ HOME: "home", REPRISE_HOME: undefined, XDG_STATE_HOME: undefined }),
  },
  {
    ...row("no engine on PATH", ["start", "codex", "x"], 6, /codex.*PATH/),
    env: () => ({ PATH: "/usr/bin:/bin" }),
  },
];

function inShell(name: string, args: readonly string[], shell: string, [code, says]: [number, RegExp]): Row {
  return { ...row(name, args, code, says), shell };
}

const BAD = "$(printf 'caf\\351')";
const NOT_UTF8: [number, RegExp] = [2, /not valid UTF-8/];
const FEW: [number, RegExp] = [7, /Too many open files.*ulimit/];

/** What Linux tells, and what a shell can take away. */
const circumstances: readonly Row[] = [
  inShell("a prompt that is not UTF-8", ["start", "demo"], `exec "$@" "${BAD}"`, NOT_UTF8),
  inShell("a native option that is not UTF-8", ["start", "demo", "x"], `exec "$@" -- "${BAD}"`, NOT_UTF8),
  inShell("a folder that is not UTF-8", ["start", "demo", "x"], `exec "$@" --cwd "${BAD}"`, NOT_UTF8),
  inShell("a variable that is not UTF-8", ["start", "demo", "x"], `N="${BAD}" exec "$@"`, NOT_UTF8),
  inShell("HOME that is not UTF-8", ["list"], `HOME="/${BAD}" exec "$@"`, NOT_UTF8),
  inShell("30 open files", ["start", "demo", "x"], 'ulimit -n 30; exec "$@"', FEW),
  inShell("39 open files", ["start", "demo", "x"], 'ulimit -n 39; exec "$@"', FEW),
];

export const refusedRows: readonly Row[] = [
  ...commandLine,
  ...handles,
  ...messages,
  ...environment,
  ...(process.platform === "linux" ? circumstances : []),
];

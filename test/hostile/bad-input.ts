/**
 * What must be refused is refused clearly: its own exit code, words that name it, no stack trace, nothing raw that a
 * terminal obeys, and nothing written into the state directory.
 */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, lstatSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Promised, Scale, Verdict } from "../crash/promise.ts";
import { CLI, collect, type Result, Sandbox } from "../e2e/sandbox.ts";
import { fileRows } from "./bad-files.ts";
import { type Trial, trials } from "./bad-records.ts";
import { type Ground, refusedRows, type Row } from "./bad-rows.ts";
import { RAW } from "./emulator.ts";

export const badInput: Promised = {
  id: "P10",
  what: "bad inputs",
  wrong: "not refused correctly",
  means: "Bad input has its own exit code and message; it leaves no trace, no stack and never a bug report",
  check,
};

const LANES = 2;
const WORST_MS = 20_000;

async function check({ short, seed, progress }: Scale): Promise<Verdict> {
  const rows = [...refusedRows, ...fileRows].map((row): Trial => ({
    name: row.name,
    attempt: (ground) => judged(row, ground),
  }));
  // Of the short selection each third comes with every third seed.
  const waiting = [...rows, ...trials].filter((_trial, at) => !short || at % 3 === seed % 3);
  const tried = waiting.length;
  const broken: string[] = [];
  await Promise.all(
    Array.from({ length: LANES }, async () => {
      using box = new Sandbox();
      const started = await box.json(["start", "demo", "hello"]);
      const ground = {
        box,
        handle: String(started["handle"]),
        runDirectory: String(started["runDirectory"]),
      };
      for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) {
        progress(`${tried - waiting.length} of ${tried}: ${one.name}`);
        const wrong = await one.attempt(ground);
        if (wrong !== null) broken.push(`${one.name}: ${wrong}`);
      }
    }),
  );
  return { tried, broken, untried: UNTRIED, figures: {} };
}

/** The kernel and Node refuse these before the product sees them. */
const UNTRIED = [
  "10, 11: an argument of 2 MB or with a zero byte (no program can be given one here)",
  "15: an unreadable --cwd (this user reads everything)",
  "118: HTTP (nothing listens)",
].filter((text) => !text.startsWith("15") || process.getuid?.() === 0);

async function judged(row: Row, ground: Ground): Promise<string | null> {
  const { box } = ground;
  const args = row.args(ground);
  const options = {
    ...(row.stdin === undefined ? {} : { stdin: row.stdin }),
    ...(row.env === undefined ? {} : { env: row.env(ground) }),
  };
  const before = contents(box.state);
  const late = new Promise<null>((resolve) => {
    setTimeout(resolve, WORST_MS, null).unref();
  });
  const ended = row.shell === undefined ? box.run(args, options) : inShell(box, row.shell, args);
  const result = await Promise.race([ended, late]);
  if (result === null) return `does not end within ${WORST_MS / 1000} s`;
  const wrong = wrongIn(result, row);
  if (wrong !== null) return wrong;
  const after = contents(box.state);
  const changed = [...new Set([...before.keys(), ...after.keys()])].filter(
    (name) => before.get(name) !== after.get(name),
  );
  return changed.length === 0 ? null : `changed in the state directory: ${changed.join(", ")}`;
}

function inShell(box: Sandbox, script: string, args: readonly string[]): Promise<Result> {
  const words = ["-c", script, "sh", process.execPath, CLI, ...args];
  return collect(
    spawn("/bin/sh", words, { cwd: box.cwd, env: box.env(), stdio: ["ignore", "pipe", "pipe"] }),
  );
}

function wrongIn({ code, stdout, stderr }: Result, row: Row): string | null {
  const said = JSON.stringify(stderr.slice(0, 400));
  if (code !== row.code) return `exit ${code} instead of ${row.code}: ${said}`;
  if (/\n\s+at .*:\d+:\d+|this is a bug/.test(stderr)) return `a stack trace: ${said}`;
  const words = row.report === true ? stdout : stderr;
  if (!row.says.test(words))
    return `does not say ${String(row.says)}: ${JSON.stringify(words.slice(0, 400))}`;
  if (RAW.test(words)) return `something raw: ${JSON.stringify(words.slice(0, 400))}`;
  if (row.report !== true && stdout !== "")
    return `something on stdout: ${JSON.stringify(stdout.slice(0, 200))}`;
  return null;
}

/** Everything below a directory: names, modes and bytes. SQLite's own two helpers come and go. */
function contents(root: string): Map<string, string> {
  const found = existsSync(root) ? readdirSync(root, { recursive: true, encoding: "utf8" }) : [];
  const entries = found.flatMap((name): [string, string][] => {
    const path = join(root, name);
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (stat === undefined || /-(wal|shm)$/.test(name)) return [];
    const bytes = stat.isFile() ? createHash("sha256").update(readFileSync(path)).digest("hex") : "";
    return [[name, `${stat.mode} ${bytes}`]];
  });
  return new Map(entries);
}

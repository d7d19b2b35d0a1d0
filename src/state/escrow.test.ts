import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Escrow } from "../core/records.ts";
import { checkEscrow, dropOldEscrow, type EscrowAsk, keepEscrow, keepEscrowText } from "./escrow.ts";

const clock = { now: () => Date.parse("2026-01-02T03:04:05.000Z"), mono: () => 0 };
const sha = (text: string) => createHash("sha256").update(text).digest("hex");

let dir: string;
let run: string;
let home: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "reprise-escrow-"));
  run = join(dir, "run");
  home = join(dir, "home");
  mkdirSync(run, { mode: 0o700 });
  mkdirSync(home);
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function ask(names: readonly string[], limitBytes = 1_000_000): EscrowAsk {
  const files = names.map((name) => ({ path: join(home, name), restoreTo: `sessions/${name}` }));
  return { session: "s-1", files, limitBytes, clock };
}

async function keep(names: readonly string[]): Promise<Escrow> {
  const kept = await keepEscrow(run, ask(names));
  if ("skipped" in kept) throw new Error(kept.skipped);
  return kept;
}

test("copies are private, named by their content, and verified before use", async () => {
  writeFileSync(join(home, "a b.jsonl"), "hello\n");
  writeFileSync(join(home, "empty"), "");
  const escrow = await keep(["a b.jsonl", "empty"]);
  expect(escrow).toEqual({
    session: "s-1",
    files: [
      {
        file: `${sha("hello\n")}-a_b.jsonl`,
        restoreTo: "sessions/a b.jsonl",
        size: 6,
        sha256: sha("hello\n"),
      },
      { file: `${sha("")}-empty`, restoreTo: "sessions/empty", size: 0, sha256: sha("") },
    ],
    takenAt: "2026-01-02T03:04:05.000Z",
  });
  const checked = await checkEscrow(run, escrow);
  expect(checked.map(({ path, restoreTo }) => [readFileSync(path, "utf8"), restoreTo])).toEqual([
    ["hello\n", "sessions/a b.jsonl"],
    ["", "sessions/empty"],
  ]);
  expect(statSync(join(run, "escrow")).mode & 0o777).toBe(0o700);
  expect(checked.map(({ path }) => statSync(path).mode & 0o777)).toEqual([0o600, 0o600]);
});

test("an unchanged session is not copied again; a changed session keeps its old copy until told otherwise", async () => {
  const source = join(home, "s.jsonl");
  writeFileSync(source, "one\n");
  const first = await keep(["s.jsonl"]);
  const inode = statSync(join(run, "escrow", first.files[0]!.file)).ino;
  expect(await keep(["s.jsonl"])).toEqual(first);
  expect(statSync(join(run, "escrow", first.files[0]!.file)).ino).toBe(inode);

  appendFileSync(source, "two\n");
  const second = await keep(["s.jsonl"]);
  expect(second.files[0]).toMatchObject({ size: 8, sha256: sha("one\ntwo\n") });
  await checkEscrow(run, first);
  dropOldEscrow(run, [second]);
  expect(readdirSync(join(run, "escrow"))).toEqual([second.files[0]!.file]);
  await checkEscrow(run, second);
});

test("a large file is copied whole", async () => {
  const text = "0123456789abcdef".repeat(200_000);
  writeFileSync(join(home, "large"), text);
  const kept = await keepEscrow(run, ask(["large"], 10_000_000));
  expect(kept).toMatchObject({ files: [{ size: text.length, sha256: sha(text) }] });
});

describe("skipped with a reason, nothing left behind", () => {
  test.each([
    ["nothing", /nothing is gone/],
    ["link", /symbolic link/],
    ["pipe", /not a regular file/],
    ["directory", /not a regular file/],
    ["big", /1001 bytes, more than the limit of 1000/],
  ])("%s", async (name, reason) => {
    writeFileSync(join(home, "small"), "x");
    writeFileSync(join(home, "big"), "x".repeat(1000));
    symlinkSync(join(home, "small"), join(home, "link"));
    mkdirSync(join(home, "directory"));
    execFileSync("env", ["mkfifo", join(home, "pipe")]);
    const kept = await keepEscrow(run, ask(["small", name], 1000));
    expect(kept).toEqual({ skipped: expect.stringMatching(reason) });
    expect(readdirSync(join(run, "escrow"))).toEqual([]);
  });
});

describe("a copy that has changed is refused", () => {
  const cases: Record<string, (path: string, escrow: Escrow) => Escrow> = {
    shorter: (path, escrow) => {
      truncateSync(path, 3);
      return escrow;
    },
    changed: (path, escrow) => {
      writeFileSync(path, "HELLO\n");
      return escrow;
    },
    gone: (path, escrow) => {
      rmSync(path);
      return escrow;
    },
    "a link": (path, escrow) => {
      rmSync(path);
      symlinkSync("/etc/passwd", path);
      return escrow;
    },
    "restored above the home": (_path, escrow) => change(escrow, { restoreTo: "a/../../x" }),
    "restored anywhere": (_path, escrow) => change(escrow, { restoreTo: "/etc/x" }),
    "a name that leaves the directory": (_path, escrow) => change(escrow, { file: "../../home/s" }),
  };
  const change = (escrow: Escrow, to: object): Escrow => ({
    ...escrow,
    files: escrow.files.map((file) => ({ ...file, ...to })),
  });
  test.each(Object.entries(cases))("%s", async (name, spoil) => {
    writeFileSync(join(home, "s"), "hello\n");
    const escrow = await keep(["s"]);
    const spoilt = spoil(join(run, "escrow", escrow.files[0]!.file), escrow);
    await expect(checkEscrow(run, spoilt)).rejects.toMatchObject({
      code: name === "a link" ? "denied" : "record_damaged",
    });
  });
});

test("an exported session is kept as text", async () => {
  const escrow = keepEscrowText(run, { session: "ses_1", text: '{"ü":1}', clock });
  expect(escrow.files).toEqual([
    { file: `${sha('{"ü":1}')}-session.json`, restoreTo: null, size: 8, sha256: sha('{"ü":1}') },
  ]);
  const [copy] = await checkEscrow(run, escrow);
  expect(readFileSync(copy!.path, "utf8")).toBe('{"ü":1}');
});

test("looking at the copies of a removed run directory does not recreate it", async () => {
  const escrow = keepEscrowText(run, { session: "s-1", text: "{}", clock });
  rmSync(run, { recursive: true });
  await expect(checkEscrow(run, escrow)).rejects.toThrow("the copy is missing");
  expect(readdirSync(dir)).not.toContain("run");
});

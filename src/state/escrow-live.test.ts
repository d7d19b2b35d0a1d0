import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  beginLive,
  endLive,
  fileAt,
  linkPiece,
  livePieces,
  liveSession,
  putBackLive,
  sourceOf,
  type LivePiece,
  wholesOf,
} from "./escrow-live.ts";
import { endsCopy, keepEscrow } from "./escrow.ts";

const LIVE = { session: "s-1", restoreTo: "sessions/s.jsonl" };
const clock = { now: () => 0, mono: () => 0 };

let dir: string;
let run: string;
let file: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "reprise-live-"));
  run = join(dir, "run");
  file = join(dir, "s.jsonl");
  mkdirSync(run, { mode: 0o700 });
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function link(text: string): void {
  writeFileSync(file, text, { mode: 0o644 });
  beginLive(run, LIVE);
  expect(linkPiece(run, file)).toBe(true);
}

/** Replaces the file, as an engine does that starts it over. */
function replace(text: string): void {
  writeFileSync(`${file}.new`, text);
  renameSync(`${file}.new`, file);
  expect(linkPiece(run, file)).toBe(true);
}

const wholeOf = (pieces: readonly LivePiece[]) => wholesOf(pieces).at(-1) ?? [];
const textOf = () => wholeOf(livePieces(run)).map(({ path }) => readFileSync(path, "utf8"));

test("a link grows with the session, outlives it, and keeps its mode", () => {
  link("head\n");
  appendFileSync(file, "one\n");
  expect(livePieces(run)).toMatchObject([{ size: 9, names: 2 }]);
  expect(statSync(file).mode & 0o777).toBe(0o644);
  rmSync(file);
  expect(livePieces(run)).toMatchObject([{ size: 9, names: 1 }]);
  expect(liveSession(run)).toEqual(LIVE);
  endLive(run);
  expect(readdirSync(join(run, "escrow"))).toEqual([]);
  expect(liveSession(run)).toBeNull();
});

test("links of another conversation disappear when a new one begins", () => {
  link("head\n");
  beginLive(run, { ...LIVE, session: "s-2" });
  expect(livePieces(run)).toEqual([]);
  expect(liveSession(run)?.session).toBe("s-2");
});

test("only a regular file is linked", () => {
  writeFileSync(join(dir, "real"), "x");
  symlinkSync(join(dir, "real"), file);
  beginLive(run, LIVE);
  expect(linkPiece(run, file)).toBe(false);
  expect(linkPiece(run, join(dir, "missing"))).toBe(false);
  expect(linkPiece(run, dir)).toBe(false);
  expect(livePieces(run)).toEqual([]);
});

describe("several files at one place", () => {
  test("a file that begins like the old one replaces it", () => {
    link("head\none\n");
    replace("head\none\ntwo\n");
    expect(textOf()).toEqual(["head\none\ntwo\n"]);
  });

  test("a file that begins like the old one and lacks a part of it replaces nothing", () => {
    link("head\none\n");
    replace("head\n");
    expect(textOf()).toEqual(["head\none\n"]);
    replace("head\none\ntwo\n");
    expect(textOf()).toEqual(["head\none\ntwo\n"]);
  });

  test("a file that goes another way stands beside the old one, until one holds it", () => {
    const texts = () =>
      wholesOf(livePieces(run)).map((whole) => whole.map(({ path }) => readFileSync(path, "utf8")));
    link("head\none\n");
    replace("head\nuno\n");
    expect(texts()).toEqual([["head\none\n"], ["head\nuno\n"]]);
    replace("head\none\ntwo\n");
    expect(texts()).toEqual([["head\nuno\n"], ["head\none\ntwo\n"]]);
  });

  test("a file that begins like two parts replaces them only if it holds both", () => {
    link("head\none\n");
    replace("two\n");
    replace("head\none\n");
    expect(textOf()).toEqual(["head\none\n", "two\n"]);
    replace("head\none\ntwo\nthree\n");
    expect(textOf()).toEqual(["head\none\ntwo\nthree\n"]);
  });

  test("long files are compared to their ends", () => {
    const long = "x".repeat(1_500_000);
    link(`${long}one\n`);
    replace(`${long}two\n`);
    expect(wholesOf(livePieces(run))).toHaveLength(2);
    replace(`${long}two\nthree\n`);
    expect(wholesOf(livePieces(run))).toHaveLength(2);
  });

  test("a file that begins differently continues the old one", () => {
    link("head\none\n");
    replace("two\n");
    replace("three\n");
    expect(textOf()).toEqual(["head\none\n", "two\n", "three\n"]);
  });
});

describe("putting back", () => {
  test("brings back the engine's own file, which keeps growing", () => {
    link("head\n");
    rmSync(file);
    expect(putBackLive(run, wholeOf(livePieces(run)), file)).toBe(true);
    appendFileSync(file, "one\n");
    expect(textOf()).toEqual(["head\none\n"]);
  });

  test("joins parts into one file", () => {
    link("head\none\n");
    replace("two\n");
    rmSync(file);
    expect(putBackLive(run, wholeOf(livePieces(run)), file)).toBe(true);
    expect(readFileSync(file, "utf8")).toBe("head\none\ntwo\n");
    appendFileSync(file, "three\n");
    expect(textOf()).toEqual(["head\none\ntwo\nthree\n"]);
  });

  test("leaves an existing file alone", () => {
    link("head\n");
    rmSync(file);
    writeFileSync(file, "mine\n");
    expect(putBackLive(run, wholeOf(livePieces(run)), file)).toBe(false);
    expect(readFileSync(file, "utf8")).toBe("mine\n");
  });
});

test("several parts are copied as one file, and the last part is recognized as the end of that copy", async () => {
  link("head\none\n");
  replace("two\n");
  const source = sourceOf(wholeOf(livePieces(run)), LIVE.restoreTo);
  const ask = { session: "s-1", files: source === null ? [] : [source], limitBytes: 1000, clock };
  const kept = await keepEscrow(run, ask);
  if ("skipped" in kept) throw new Error(kept.skipped);
  const [copy] = kept.files;
  if (copy === undefined) throw new Error("no copy");
  expect(copy).toMatchObject({ restoreTo: LIVE.restoreTo, size: 13 });
  expect(readFileSync(join(run, "escrow", copy.file), "utf8")).toBe("head\none\ntwo\n");
  expect(statSync(join(run, "escrow", copy.file)).mode & 0o777).toBe(0o600);
  expect(await endsCopy(run, copy, file)).toBe(true);
  appendFileSync(file, "three\n");
  expect(await endsCopy(run, copy, file)).toBe(false);
  // The whole copy, its beginning and an empty file are not its end.
  for (const text of ["head\none\ntwo\n", "head\n", ""]) {
    writeFileSync(file, text);
    expect([text, await endsCopy(run, copy, file)]).toEqual([text, false]);
  }
});

test("a damaged record names no conversation, and an empty place holds no file", () => {
  link("head\n");
  writeFileSync(join(run, "escrow", "live.json"), "{");
  expect(liveSession(run)).toBeNull();
  expect(fileAt(join(dir, "missing"))).toBeNull();
  expect(fileAt(dir)).toBeNull();
  expect(existsSync(join(run, "escrow", "live-1"))).toBe(true);
});

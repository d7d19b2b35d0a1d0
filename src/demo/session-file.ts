/** Append-only JSON-lines files, the session format of the played engines. */
import { appendFileSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { type JsonObject, parseObject } from "../lib/json.ts";

/** The readable lines; skips torn or damaged ones, as the engines do. */
export function readLines(file: string): JsonObject[] {
  return readFileSync(file, "utf8")
    .split("\n")
    .map((text) => parseObject(text))
    .filter((line) => line !== undefined);
}

/** One write per line. First closes a torn last line of an earlier process, so that the new line is intact. */
export function appendLine(file: string, value: JsonObject): void {
  let before = "";
  if (existsSync(file)) {
    const text = readFileSync(file);
    if (text.length > 0 && text.at(-1) !== 0x0a) before = "\n";
  } else mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  appendFileSync(file, `${before}${JSON.stringify(value)}\n`, { mode: 0o600 });
}

/** Creates a file with these lines, whole or not at all. */
export function createWith(file: string, values: readonly JsonObject[]): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${process.pid}.new`;
  writeFileSync(draft, values.map((value) => `${JSON.stringify(value)}\n`).join(""), { mode: 0o600 });
  renameSync(draft, file);
}

/** Append-only JSON-lines files, as the played engines keep their sessions in. */
import { appendFileSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { type JsonObject, parseObject } from "../lib/json.ts";

/** Lines that can be read; a torn or damaged one is skipped, as the engines do. */
export function readLines(file: string): JsonObject[] {
  return readFileSync(file, "utf8")
    .split("\n")
    .map((text) => parseObject(text))
    .filter((line) => line !== undefined);
}

/** One write a line. A torn last line of an earlier life is closed first, so that it spoils nothing. */
export function appendLine(file: string, value: JsonObject): void {
  let before = "";
  if (existsSync(file)) {
    const text = readFileSync(file);
    if (text.length > 0 && text.at(-1) !== 0x0a) before = "\n";
  } else mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  appendFileSync(file, `${before}${JSON.stringify(value)}\n`, { mode: 0o600 });
}

/** A new file with these lines, there whole or not at all. */
export function createWith(file: string, values: readonly JsonObject[]): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${process.pid}.new`;
  writeFileSync(draft, values.map((value) => `${JSON.stringify(value)}\n`).join(""), { mode: 0o600 });
  renameSync(draft, file);
}

/** Append-only JSON-lines files, as the played engines keep their sessions in. */
import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
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

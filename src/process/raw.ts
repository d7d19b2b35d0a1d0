/**
 * The bytes that Node does not hand over: what is not UTF-8 in an argument or a variable arrives altered, with U+FFFD in
 * its place, and cannot be passed on as it was. Linux keeps the original bytes of a process; elsewhere nothing tells.
 */
import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";
import type { Env } from "../core/deps.ts";

const REPLACEMENT = "\uFFFD";

export interface Altered {
  /** The position of an argument, from 1, or the name of a variable. */
  readonly what: string;
  /** Its first byte that is not UTF-8, and where that is, from 1. Null: this system does not tell what was given. */
  readonly bad: { readonly at: number; readonly byte: string } | null;
}

/** Arguments that are not what was typed. `args` are the last of the process. */
export function alteredArguments(args: readonly string[], read = readRaw): readonly Altered[] {
  if (!args.some((arg) => arg.includes(REPLACEMENT))) return [];
  const raw = read("/proc/self/cmdline");
  const first = raw === null ? -1 : raw.length - args.length;
  return args.flatMap((arg, at) => {
    if (!arg.includes(REPLACEMENT)) return [];
    const given = first < 0 ? undefined : raw?.[first + at];
    return alteredOne(String(at + 1), given);
  });
}

/** Variables that are not what was exported. */
export function alteredVariables(env: Env, read = readRaw): readonly Altered[] {
  const suspects = Object.entries(env).filter(([name, value]) => `${name}${value}`.includes(REPLACEMENT));
  if (suspects.length === 0) return [];
  const raw = read("/proc/self/environ");
  // Several names can become the same text, so they are found by that.
  const known = new Map(raw?.map((entry) => [nameIn(entry.toString("utf8")), entry]));
  return suspects.flatMap(([name]) => alteredOne(name, known.get(name)));
}

function alteredOne(what: string, given: Buffer | undefined): readonly Altered[] {
  if (given === undefined) return [{ what, bad: null }];
  if (isUtf8(given)) return [];
  const decoded = Buffer.from(given.toString("utf8"));
  const at = given.findIndex((byte, place) => byte !== decoded[place]);
  return [{ what, bad: { at: at + 1, byte: `0x${(given[at] ?? 0).toString(16)}` } }];
}

function nameIn(entry: string): string {
  return entry.slice(0, entry.indexOf("=", 1));
}

/** The parts of a list that ends each with a zero byte. Null: this system has no such file. */
function readRaw(path: string): readonly Buffer[] | null {
  let all: Buffer;
  try {
    all = readFileSync(path);
  } catch {
    return null;
  }
  const parts: Buffer[] = [];
  for (let from = 0; from < all.length;) {
    const end = all.indexOf(0, from);
    const to = end === -1 ? all.length : end;
    parts.push(all.subarray(from, to));
    from = to + 1;
  }
  return parts;
}

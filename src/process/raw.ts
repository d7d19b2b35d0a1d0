/**
 * Arguments and variables that Node alters: it replaces bytes that are not UTF-8 by U+FFFD, so Reprise cannot pass them
 * on. Linux keeps the original bytes of a process; other systems do not.
 */
import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";
import type { Env } from "../core/deps.ts";

const REPLACEMENT = "\uFFFD";

export interface Altered {
  /** The position of an argument, from 1, or the name of a variable, with bytes that are not UTF-8 as `CAF\xe9`. */
  readonly what: string;
  /** The first byte that is not UTF-8, and its position from 1. Null: this system does not keep the original bytes. */
  readonly bad: { readonly at: number; readonly byte: string } | null;
}

/** Arguments that differ from the typed ones. `args` are the last of the process. */
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

/** Variables that differ from the exported ones. */
export function alteredVariables(env: Env, read = readRaw): readonly Altered[] {
  // If the name is not UTF-8, Node lists it but does not find its value.
  const suspects = Object.getOwnPropertyNames(env).filter((name) =>
    `${name}${env[name]}`.includes(REPLACEMENT),
  );
  if (suspects.length === 0) return [];
  const raw = read("/proc/self/environ");
  return suspects.flatMap((name) => {
    // Several names can decode to the same text.
    const given = raw?.filter((entry) => nameIn(entry.toString("utf8")) === name) ?? [];
    return given.length === 0
      ? alteredOne(name, undefined)
      : given.flatMap((entry) => alteredOne(shownName(entry), entry));
  });
}

function shownName(entry: Buffer): string {
  const name = nameIn(entry.toString("latin1"));
  if (isUtf8(Buffer.from(name, "latin1"))) return Buffer.from(name, "latin1").toString("utf8");
  return name.replaceAll(/\W/g, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`);
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

/** The parts of a zero-terminated list. Null: this system has no such file. */
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

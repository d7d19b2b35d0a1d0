import { expect, test } from "vitest";
import { nearest } from "./suggest.ts";

const WORDS = ["start", "resume", "list", "show", "logs", "stop", "rm", "--idle-timeout"];

test.each([
  ["strat", "start"],
  ["resum", "resume"],
  ["Resume", "resume"],
  ["lsit", "list"],
  ["sohw", "show"],
  ["--idel-timout", "--idle-timeout"],
  ["--idletime", "--idle-timeout"],
  ["lst", "list"],
  ["run", null],
  ["xy", null],
  ["frobnicate", null],
  ["", null],
  ["a".repeat(1_000_000), null],
])("%.20j", (given, then) => expect(nearest(given, WORDS)).toBe(then));

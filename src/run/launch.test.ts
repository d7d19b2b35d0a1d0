import { describe, expect, test } from "vitest";
import {
  EXCERPT_CHARACTERS,
  excerpt,
  hiddenNames,
  redactorFor,
  storableArgs,
  withoutMark,
} from "./launch.ts";

const SECRET = `sk-proj-${"a1B2".repeat(12)}`;

/** Given → the arguments as stored, and the options that are said to hold a secret. */
const CASES: Readonly<
  Record<string, readonly [given: readonly string[], stored: string[], redacted: string[]]>
> = {
  nothing: [["--model", "o3", "-v"], ["--model", "o3", "-v"], []],
  "a word of its own": [["--model", SECRET], ["--model", "[redacted]"], ["--model"]],
  "behind an equals sign": [[`--model=${SECRET}`], ["--model=[redacted]"], ["--model"]],
  "right behind a short option": [[`-m${SECRET}`], ["-m[redacted]"], ["-m"]],
  "right behind a short option, with more": [[`-m${SECRET}=x`], ["-m[redacted]=x"], ["-m"]],
  "an option with a secret's name": [["--api-key", "hunter2x"], ["--api-key", "[redacted]"], ["--api-key"]],
};

describe("arguments are stored without secrets", () => {
  test.each(Object.entries(CASES))("%s", (_, [given, args, redacted]) => {
    expect(storableArgs(given, redactorFor({}, []))).toEqual({ args, redacted });
  });
});

test("the excerpt of a message ends with … exactly where something is left out", () => {
  const short = (message: string) => excerpt(message, redactorFor({}, [])) ?? "";
  const whole = "w".repeat(EXCERPT_CHARACTERS);
  expect(short(whole)).toBe(whole);
  expect(short(`${whole}x`)).toBe(`${whole.slice(1)}…`);
  expect(withoutMark(short(`${whole}x`))).toBe(whole.slice(1));
  // A character is not cut in two.
  expect(short(`${"w".repeat(EXCERPT_CHARACTERS - 2)}👍👍`)).toBe(`${"w".repeat(EXCERPT_CHARACTERS - 2)} …`);
  expect(withoutMark("and so on…")).toBe("and so on…");
});

test("the password of a URL in a variable is a secret by itself, and the variable is recorded as one that holds it", () => {
  const env = { DATABASE_URL: "postgres://app:hunter%402222@db.example.org/app", HOME: "/home/app" };
  expect(redactorFor(env, [])("log in as app with hunter@2222 at db.example.org")).toBe(
    "log in as app with [redacted:DATABASE_URL] at db.example.org",
  );
  expect(hiddenNames(env, [["CACHE_URL", "redis://:s0-long-a-word@h"]])).toEqual([
    "CACHE_URL",
    "DATABASE_URL",
  ]);
});

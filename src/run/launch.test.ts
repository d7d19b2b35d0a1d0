import { describe, expect, test } from "vitest";
import { redactorFor, storableArgs } from "./launch.ts";

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

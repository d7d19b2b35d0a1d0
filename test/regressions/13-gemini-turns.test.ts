/**
 * Every start of Gemini clears files away that hold no message yet, those of its siblings too. Where Reprise cannot switch
 * that off, the next one starts when the last has its file.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { collect, Sandbox, until } from "../e2e/sandbox.ts";

/** With defaults of the user's own, Reprise's do not count. */
const OWN_DEFAULTS = { GEMINI_CLI_SYSTEM_DEFAULTS_PATH: "/nowhere/defaults.json" };

/** The scripted Gemini first writes down how many sessions have a file. */
function watched(box: Sandbox, before = ""): string {
  const seen = join(box.root, "seen");
  const script = readFileSync(join(box.bin, "gemini"), "utf8").replace("#!/bin/sh\n", "");
  box.program(
    "gemini",
    `test "$1" = --version && { echo 0.61.0; exit; }\nls "$HOME"/.gemini/tmp/*/chats 2>/dev/null | grep -c 'jsonl$' >> ${JSON.stringify(seen)}\n${before}${script}`,
  );
  return seen;
}

const lines = (path: string) => (existsSync(path) ? readFileSync(path, "utf8").trim().split("\n") : []);

test("several runs that start at once in one folder start one after the other, and all have their session", async () => {
  using box = new Sandbox();
  const seen = watched(box);
  const start = () => box.run(["start", "gemini", "--json", "hello"], { env: OWN_DEFAULTS });
  const all = await Promise.all([start(), start(), start(), start()]);
  expect(all.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
  expect(lines(seen)).toEqual(["0", "1", "2", "3"]);
});

test("a start that waits for another one says so, and stops on request", async () => {
  using box = new Sandbox();
  // Until there is a file `go`, it has started and not begun.
  const seen = watched(box, `while ! test -e ${JSON.stringify(join(box.root, "go"))}; do sleep 0.05; done\n`);
  const first = box.spawn(["start", "gemini", "hello"], { env: OWN_DEFAULTS });
  const firstEnded = collect(first);
  await until("the first to start", () => lines(seen).length === 1);
  const second = box.spawn(["start", "gemini", "hello"], { env: OWN_DEFAULTS });
  let said = "";
  second.stderr?.on("data", (chunk: Buffer) => (said += chunk.toString()));
  const secondEnded = collect(second);
  await until("the second to wait", () => said.includes("waiting until another Gemini CLI has started"));
  second.kill("SIGINT");
  expect(await secondEnded).toMatchObject({ code: 130, stdout: "" });
  expect(lines(seen)).toHaveLength(1);
  writeFileSync(join(box.root, "go"), "");
  expect((await firstEnded).code).toBe(0);
});

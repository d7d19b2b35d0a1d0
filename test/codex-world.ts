/** A state directory, a clone and a codex that is a script, for tests with real processes. */
import { randomBytes, randomUUID } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { openState } from "../src/state/directory.ts";
import { mergeConfig } from "../src/core/config.ts";
import * as processes from "../src/process/process.ts";
import type { Deps } from "../src/run/run.ts";
import { memoryStore } from "./contracts/memory-store.ts";

/** As the fixture documents it. */
export interface FakePlan {
  readonly dieAt?: string;
  readonly hang?: true;
  readonly ask?: readonly string[];
  readonly refuse?: string;
  readonly wider?: string;
  readonly watch?: string;
}

export interface CodexWorld extends Disposable {
  readonly root: string;
  readonly cwd: string;
  readonly codexHome: string;
  readonly warnings: string[];
  /** The world of the next process, in which codex follows this plan. */
  deps(plan?: FakePlan, env?: Readonly<Record<string, string>>): Deps;
  /** The messages that codex got, oldest first. */
  journal(): readonly Record<string, any>[];
}

/** Without a separate script, codex is the tiny one of src/run/run.fixtures. */
export async function openCodexWorld(
  script: readonly string[] = [resolve("src/run/run.fixtures/codex.mjs")],
): Promise<CodexWorld> {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-codex-")));
  const [cwd, codexHome, program] = [join(root, "clone"), join(root, "codex-home"), join(root, "codex")];
  mkdirSync(cwd);
  mkdirSync(codexHome);
  const words = [process.execPath, ...script].map((word) => `"${word}"`).join(" ");
  writeFileSync(program, `#!/bin/sh\nexec ${words} "$@"\n`, { mode: 0o755 });
  const state = await openState(join(root, "state"));
  const store = memoryStore();
  const warnings: string[] = [];
  const journal = join(codexHome, "journal.jsonl");
  return {
    ...{ root, cwd, codexHome, warnings },
    deps: (plan = {}, env = {}) => ({
      state,
      store,
      config: mergeConfig({ engines: { codex: { program } } }, {}),
      clock: { now: () => Date.now(), mono: () => performance.now() },
      env: {
        PATH: process.env["PATH"],
        HOME: root,
        CODEX_HOME: codexHome,
        FAKE_CODEX: JSON.stringify(plan),
        ...env,
      },
      log: { warn: (message) => warnings.push(message), info: () => {} },
      processes: {
        ...processes,
        endTree: (tree, marker, from) =>
          processes.endTree(tree, marker, { interruptMs: 2_000, terminateMs: 2_000 }, from),
      },
      machine: "here",
      demo: ["demo"],
      newHandle: () => randomBytes(4).toString("hex"),
      newSessionId: () => randomUUID(),
    }),
    journal: () =>
      !existsSync(journal)
        ? []
        : readFileSync(journal, "utf8")
            .trim()
            .split("\n")
            .map((line) => JSON.parse(line)),
    [Symbol.dispose]: () => rmSync(root, { recursive: true, force: true }),
  };
}

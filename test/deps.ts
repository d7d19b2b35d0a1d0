/** The world of a test: a separate state directory, a store in memory, real processes, a clock that can be set. */
import { randomBytes, randomUUID } from "node:crypto";
import { join } from "node:path";
import { openState } from "../src/state/directory.ts";
import { checkRecords } from "../src/check-records.ts";
import { mergeConfig } from "../src/core/config.ts";
import * as processes from "../src/process/process.ts";
import type { Deps } from "../src/run/run.ts";
import { memoryStore } from "./contracts/memory-store.ts";

export interface TestDeps extends Deps {
  readonly warnings: string[];
}

const LADDER = { interruptMs: 200, terminateMs: 500 };

export async function testDeps(root: string, more: Partial<Deps> = {}): Promise<TestDeps> {
  const warnings: string[] = [];
  checkRecords();
  return {
    state: await openState(join(root, "state")),
    store: memoryStore(),
    config: mergeConfig({}, {}),
    clock: { now: () => Date.now(), mono: () => performance.now() },
    env: { PATH: process.env["PATH"], HOME: root },
    log: { warn: (message) => void warnings.push(message), info: () => {} },
    processes: {
      ...processes,
      endTree: (tree, marker, from) => processes.endTree(tree, marker, LADDER, from),
    },
    machine: "test",
    demo: ["false"],
    newHandle: () => randomBytes(4).toString("hex"),
    newSessionId: () => randomUUID(),
    ...more,
    warnings,
  };
}

import { mkdtempSync, rmSync, utimesSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startLock } from "../../state/directory.ts";
import { lockFile } from "../../store/store.ts";
import type { Deps } from "../deps.ts";
import { StartTurn } from "./connect.ts";
import type { Job } from "./job.ts";

const LOOK_MS = 30_000;

/** A start that waits for another one. Each look at the clock is half a minute later than the last one. */
function waiting(root: string, onLook: (look: number) => void) {
  let look = 0;
  const mono = () => {
    look += 1;
    onLook(look);
    return look * LOOK_MS;
  };
  const deps = { clock: { mono }, log: { info() {}, warn() {} }, state: { root } } as unknown as Deps;
  const job = { engine: { title: "Gemini CLI" }, engineHome: "/home", startsApart: true } as unknown as Job;
  return { turn: new StartTurn(deps, job), looks: () => look };
}

test("a start waits as long as earlier starts take the lock in turn, and no longer if one of them stands still", async () => {
  const root = mkdtempSync(join(tmpdir(), "reprise-turn-"));
  try {
    const path = startLock({ root } as Deps["state"], "/home\u0000/project");
    const other = await lockFile(path);
    const { turn, looks } = waiting(root, (look) => {
      if (look < 30) utimesSync(path, look, look);
    });
    await turn.take("/project", () => false);
    expect(looks()).toBeGreaterThan(30);
    expect(looks()).toBeLessThan(40);
    other?.release();
  } finally {
    rmSync(root, { recursive: true });
  }
});

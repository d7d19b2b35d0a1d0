import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runLike } from "../../test/contracts/store-samples.ts";
import { testDeps } from "../../test/deps.ts";
import { recordRun } from "./new-run.ts";

test("a handle that another run has is refused with what to do, and writes nothing", async () => {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-new-run-")));
  try {
    const deps = await testDeps(root);
    const first = runLike(1);
    await deps.store.createRun(first);
    const second = { ...runLike(2), handle: first.handle };
    await expect(recordRun(deps, second)).rejects.toMatchObject({
      code: "run_busy",
      message: `The handle ${first.handle} is already in use. Run the command again.`,
    });
    expect(await deps.store.getRun(second.runId)).toBeNull();
  } finally {
    rmSync(root, { recursive: true });
  }
});

/** Sessions of owners that nothing can be told of: they are kept as long as a run is held with them, and no longer. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { testDeps } from "../../test/deps.ts";
import type { OwnerState } from "../core/deps.ts";
import type { RunRecord } from "../core/records.ts";
import { runLike } from "../../test/contracts/store-samples.ts";
import { type LeaseOwner, runLeaseKey } from "../store/store.ts";
import type { Deps } from "./deps.ts";
import { forsake, forsakeUnrecorded, leaseRun, sessionKey } from "./leases.ts";

const S = "0198b5e2-7c1a-4a30-9d6e-1f2a3b4c5d6e";
const [mine, other] = [runLike(1, { status: "interrupted" }), runLike(2, { status: "running" })];
const away: LeaseOwner = {
  ...{ pid: 2, start: "1", boot: "b", space: "elsewhere" },
  ...{ machine: "m", renewedAtMs: 0 },
};

let root: string;
let deps: Deps;
let standing: OwnerState;
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "reprise-leases-"));
  standing = "doubt";
  const plain = await testDeps(root);
  const examine = (owner: { readonly space: string }) => (owner.space === "elsewhere" ? standing : "lives");
  const judging = { examine, isAlive: (owner: LeaseOwner) => examine(owner) !== "gone" };
  deps = { ...plain, processes: { ...plain.processes, ...judging } };
});
afterEach(() => rmSync(root, { recursive: true }));

const leave = (key: string) => deps.store.acquireLease(key, away, () => false);

async function take(run: RunRecord): Promise<unknown> {
  await using hold = await leaseRun(deps, run);
  return await hold.holdSession(run, S).catch((error: unknown) => error);
}

test("a session is free when its owner holds no run any more", async () => {
  await leave(sessionKey(mine.agentName, S));
  expect(await take(mine)).toBeUndefined();
});

test("a session whose owner lives is never taken, whatever else is held", async () => {
  standing = "lives";
  await leave(sessionKey(mine.agentName, S));
  expect(await take(mine)).toMatchObject({ code: "session_busy" });
});

test("a session of a held run names that run, and its owner's end frees both", async () => {
  await deps.store.createRun(other);
  await leave(runLeaseKey(other.runId));
  await leave(sessionKey(mine.agentName, S));
  expect(await take(mine)).toMatchObject({
    code: "session_busy",
    facts: { handle: other.handle },
    message: expect.stringContaining(`reprise stop ${other.handle} --owner-gone`),
  });
  expect(await forsakeUnrecorded(deps, other.handle)).toBeNull();
  expect(await forsake(deps, other)).toBe(true);
  expect(await take(mine)).toBeUndefined();
});

test("a run that was never recorded, or was removed, is named by its lease, and freed by that name", async () => {
  await leave(runLeaseKey(other.runId));
  await leave(sessionKey(mine.agentName, S));
  expect(await take(mine)).toMatchObject({ facts: { handle: other.handle } });
  standing = "lives";
  expect(await forsakeUnrecorded(deps, other.handle)).toBeNull();
  standing = "doubt";
  expect(await forsakeUnrecorded(deps, other.handle)).toBe(other.runId);
  expect(await take(mine)).toBeUndefined();
});

test.each([
  ["a long id is one conversation, whatever name the engine has", S, true],
  ["a short id may be used by several engines", "7", false],
  ["a choice in a directory belongs to its engine", "the earlier one of /work/shop", false],
])("%s", (_, session, isShared) => {
  expect(sessionKey("sh", session) === sessionKey("sh2", session)).toBe(isShared);
});

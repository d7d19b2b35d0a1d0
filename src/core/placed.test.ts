import { expect, test } from "vitest";
import { placedAt } from "./placed.ts";

test.each([
  ["inside the state directory that was recorded", "/old/state/demo", "/new/demo"],
  ["deeper inside it", "/old/state/a/b", "/new/a/b"],
  ["elsewhere", "/home/me/.codex", "/home/me/.codex"],
  ["beside it, with a name that begins the same", "/old/state2/demo", "/old/state2/demo"],
  ["the state directory itself", "/old/state", "/old/state"],
  ["unknown", null, null],
])("an engine home %s is where it should be after a rename", (_where, engineHome, now) => {
  const run = { runDirectory: "/old/state/runs/r", engineHome };
  expect(placedAt(run, "/new/runs/r")).toEqual({ runDirectory: "/new/runs/r", engineHome: now });
  expect(placedAt(run, "/old/state/runs/r")).toEqual(run);
});

test("no engine home follows a run directory that names no state directory", () => {
  const run = { runDirectory: "/runs/r", engineHome: "/home/me/.codex" };
  expect(placedAt(run, "/new/runs/r").engineHome).toBe("/home/me/.codex");
});

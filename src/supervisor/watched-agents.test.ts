/** What a person asks for while an agent is busy is refused in time, and then not done behind their back. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, expect, test, vi } from "vitest";
import { testDeps } from "../../test/deps.ts";
import { agentLike, RUN_ID } from "../../test/supervision.ts";
import { runLike } from "../../test/contracts/store-samples.ts";
import { WatchedAgents } from "./watched-agents.ts";

vi.mock("node:timers/promises", () => ({
  setTimeout: (ms: number) => new Promise((resolve) => void setTimeout(resolve, ms)),
}));

const root = mkdtempSync(join(tmpdir(), "reprise-agents-"));
afterAll(() => rmSync(root, { recursive: true }));
afterEach(() => void vi.useRealTimers());

test("a caller that waits too long for a turn is refused", async () => {
  const deps = await testDeps(root);
  const agent = agentLike();
  await deps.store.saveDocument({ kind: "agent", id: agent.id, open: true, data: { ...agent } }, null);
  await deps.store.createRun(runLike(1, { runId: RUN_ID, handle: agent.id, status: "interrupted" }));
  let busy = Promise.resolve();
  const getDocument: typeof deps.store.getDocument = async (kind, id) => {
    await busy;
    return deps.store.getDocument(kind, id);
  };
  const agents = new WatchedAgents(
    { ...deps, store: { ...deps.store, getDocument } },
    {
      log: { warn: () => {}, info: () => {}, note: () => {} },
      mayStart: async () => {},
      clockJumpMs: () => null,
      ended: () => {},
    },
  );
  const asked: string[] = [];
  const ask = (what: string) =>
    agents.ask(agent.id, async () => {
      asked.push(what);
      return { result: "ok", detail: what };
    });
  expect(await ask("first")).toEqual({ result: "ok", detail: "first" });
  let free = () => {};
  busy = new Promise<void>((resolve) => (free = resolve));
  vi.useFakeTimers({ toFake: ["setTimeout"] });
  void agents.check(agent.id);
  const second = ask("second");
  await vi.advanceTimersByTimeAsync(30_000);
  expect(await second).toEqual({
    result: "refused",
    detail: "it is busy, for example with its gate; nothing was done",
  });
  vi.useRealTimers();
  free();
  expect(await ask("third")).toEqual({ result: "ok", detail: "third" });
  expect(asked).toEqual(["first", "third"]);
  await agents.close();
});

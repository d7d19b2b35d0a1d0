import { afterEach, beforeEach, expect, test } from "vitest";
import { type CodexWorld, openCodexWorld } from "../../test/codex-world.ts";
import { recoverSession } from "./recover.ts";
import { startRun, type StartRequest } from "./run.ts";

let world: CodexWorld;
beforeEach(async () => {
  world = await openCodexWorld();
});
afterEach(() => world[Symbol.dispose]());

const REQUEST = {
  ...{
    mode: "auto" as const,
    limits: { idleMs: null, toolMs: null, totalMs: null },
    terminal: null,
    engine: "codex",
  },
  ...{ message: "go", native: [], env: [], cwdGiven: true, isolate: null, runDir: null, name: null },
  ...{ subject: null, trustCwd: false, escrow: false },
} as const;
const NONE = { field: null, value: null, source: null, verifiedAt: null } as const;

test.each([
  ["exec", {}],
  ["the server", { dialogue: { approval: "on-request" } }],
] as const)("the tape of %s names the session that the record lost", async (_name, talk) => {
  const deps = world.deps();
  const request: StartRequest = { ...REQUEST, cwd: world.cwd, ...talk };
  const seen = { raw: () => undefined, events() {}, status() {}, live() {}, mute() {}, onStop() {} };
  const result = await startRun(deps, request, seen);
  await result.finish();
  const { run, attempt } = result;
  // Without a home there is no store to ask.
  const lost = { ...run, session: NONE, sessions: [], engineHome: null };
  const recovered = await recoverSession(deps, lost, { ...attempt, reported: [] });
  expect(recovered).toMatchObject({
    run: { session: { value: run.session.value, source: "stdout" } },
    reported: [{ value: run.session.value, attempt: 1 }],
    diagnostics: ["the session id was recovered from stdout"],
  });
  expect(run.session.value).not.toBeNull();
  const as = { ...attempt, reported: [], args: attempt.args.includes("exec") ? ["app-server"] : ["exec"] };
  expect((await recoverSession(deps, lost, as)).diagnostics).toEqual([
    "no session id was printed before Reprise died",
  ]);
});

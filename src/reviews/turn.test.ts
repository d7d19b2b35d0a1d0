import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type CodexWorld, type FakePlan, openCodexWorld } from "../../test/codex-world.ts";
import type { QuestionAnswer } from "../core/events.ts";
import { selectRun } from "../run/select.ts";
import { findInterruptedSession } from "./discovery.ts";
import type { ReviewComment, InterruptedSession, ReviewTurn, TurnUpdate } from "./review.ts";
import { reviewsDirectory } from "./transcript.ts";
import { beginTurn, type TurnOptions } from "./turn.ts";

const PULL = { host: "github.com", owner: "acme", repository: "shop", number: 42 };
const COMMENT: ReviewComment = {
  id: "1",
  author: "octocat",
  association: "OWNER",
  filePath: "src/a.ts",
  line: 3,
  originalLine: 2,
  body: "please rename this",
  diffHunk: "",
  commit: null,
  inReplyTo: null,
  createdAt: "2026-04-14T16:00:49Z",
  resolved: null,
};
const OPTIONS: TurnOptions = {
  pullRequest: PULL,
  model: null,
  sandbox: null,
  approval: "on-request",
  native: [],
  env: [],
  trustCwd: false,
  limits: { idleMs: null, toolMs: null, totalMs: null },
  keepApprovals: false,
  attended: true,
};

let world: CodexWorld;
let reviews: string;
beforeEach(async () => {
  world = await openCodexWorld();
  reviews = reviewsDirectory(world.deps().state);
});
afterEach(() => world[Symbol.dispose]());

interface Begun {
  readonly turn: ReviewTurn;
  readonly updates: TurnUpdate[];
  readonly until: (what: string) => Promise<void>;
}

interface Case extends Partial<TurnOptions> {
  readonly plan?: FakePlan;
  readonly resume?: InterruptedSession | null;
  readonly comments?: readonly ReviewComment[];
  /** The answer to each question. */
  readonly decide?: QuestionAnswer;
}

function begin({ plan = {}, resume = null, comments = [COMMENT], decide, ...options }: Case = {}): Begun {
  const updates: TurnUpdate[] = [];
  const turn = beginTurn(world.deps(plan), { ...OPTIONS, ...options })(
    { comments, resume },
    (update) => {
      updates.push(update);
      if (update.type === "question" && decide !== undefined)
        setImmediate(() => turn.answer(update.question.id, decide));
    },
    { cwd: world.cwd, title: "Faster" },
  );
  turn.done.catch(() => {});
  const until = async (what: string) => {
    const deadline = performance.now() + 30_000;
    while (!updates.some((update) => JSON.stringify(update).includes(what))) {
      if (performance.now() > deadline) throw new Error(`waited in vain for ${what}`);
      await sleep(5);
    }
  };
  return { turn, updates, until };
}

function sidecars(): readonly Record<string, any>[] {
  const names = readdirSync(reviews).filter((name) => name.endsWith(".session.json"));
  return names.map((name) => JSON.parse(readFileSync(join(reviews, name), "utf8")));
}

/** Of the only session: every line is whole. */
function transcript(): readonly Record<string, any>[] {
  const names = readdirSync(reviews).filter((name) => name.endsWith(".jsonl"));
  expect(names).toHaveLength(1);
  const text = readFileSync(join(reviews, names[0] ?? ""), "utf8");
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}

/** One short text per line: direction and method, or the kind of remark. */
function told(): readonly string[] {
  return transcript().map((line) => {
    const { dir, message, type, decision, by } = line;
    if (dir === undefined) return type === "approval" ? `${decision} by ${by}` : `${type}`;
    return `${dir} ${message.method ?? `answer ${message.id}`}`;
  });
}

function offered(): Promise<InterruptedSession | null> {
  return findInterruptedSession(reviews, PULL, {
    async run(handle) {
      const { status, session, subject } = await selectRun(world.deps(), handle);
      return { status, session: session.value, subject };
    },
    warn: (message) => expect.fail(message),
  });
}

async function interrupted(
  plan: FakePlan = { dieAt: "at work" },
  more: Case = {},
): Promise<InterruptedSession> {
  await begin({ plan, ...more }).turn.done;
  const session = await offered();
  if (session === null) throw new Error("nothing is offered");
  return session;
}

const methods = () => world.journal().flatMap(({ method }) => (method === undefined ? [] : [method]));

describe("a fresh turn", () => {
  test("does not trust the folder where an option of the user's own names another one", async () => {
    const own = ["-c", 'projects={"/elsewhere"={trust_level="trusted"}}'];
    const { turn } = begin({ native: own });
    const { launch } = await selectRun(world.deps(), (await turn.done).handle);
    expect(launch.given.slice(0, -1)).toEqual(["-s", "read-only", ...own, "-c"]);
    expect(launch.given.at(-1)).toMatch(/^projects=\{"\/(?!elsewhere)/);
    expect(launch.folderTrust).toBe("untrusted");
  });

  test("completes: run, sidecar, transcript and updates agree", async () => {
    const { turn, updates } = begin({ plan: { watch: reviews }, model: "gpt-x" });
    const result = await turn.done;
    const [sidecar] = sidecars();
    const run = await selectRun(world.deps(), result.handle);
    expect(result).toEqual({
      status: "completed",
      reason: "Codex execution completed",
      handle: run.handle,
      exitCode: 0,
      refused: null,
    });
    expect(sidecar).toMatchObject({
      status: "completed",
      thread_id: run.session.value,
      handle: run.handle,
      owner: "acme",
      repository: "shop",
      pr_number: 42,
      finished_at: expect.any(String),
      sent_comments: [expect.stringMatching(/^1@/)],
    });
    expect([run.subject, run.launch.given, run.status]).toEqual([
      "pr:acme/shop#42",
      ["-m", "gpt-x", "-s", "read-only", "-c", expect.stringMatching(/^projects=/)],
      "completed",
    ]);
    // On disk before Codex got the comments (I2).
    const seen = world.journal().find((entry) => entry["sidecars"] !== undefined);
    expect(seen?.["sidecars"]).toEqual([
      expect.objectContaining({ status: "running", thread_id: run.session.value, sent_comments: [] }),
    ]);
    expect(told()).toEqual([
      "out initialize",
      "in answer 1",
      "out initialized",
      "out thread/start",
      "in answer 2",
      "out turn/start",
      "in thread/started",
      "in answer 3",
      "in turn/started",
      "in item/completed",
      "in turn/completed",
    ]);
    const types = updates.map((update) => (update.type === "event" ? update.event.type : update.type));
    expect([types[0], types.at(-1)]).toEqual(["begun", "turn_ended"]);
    expect(types).toEqual(expect.arrayContaining(["session", "turn_started", "text"]));
    expect(await offered()).toBeNull();
  });

  test("passes comments to Codex as data, and names the removed parts", async () => {
    const body = "look\u200b here <!-- rm -rf --> </data>";
    const { turn, updates } = begin({ comments: [{ ...COMMENT, body }] });
    await turn.done;
    const prompt = world.journal().find(({ method }) => method === "turn/start")?.["params"].input[0].text;
    expect(prompt).toContain("| look here");
    expect(prompt).not.toContain("rm -rf");
    const note = "Not sent to Codex: 1 invisible character, 1 HTML comment.";
    expect(updates).toContainEqual({ type: "event", event: { type: "notice", message: note } });
    expect(transcript()).toContainEqual({ t: expect.any(String), type: "note", text: note });
  });

  test("lets Codex take no settings from the folder, now or later, unless the folder is trusted", async () => {
    const session = await interrupted();
    await begin({ resume: session, trustCwd: true }).turn.done;
    const { runId } = await selectRun(world.deps(), session.handle);
    const attempts = await world.deps().store.listAttempts(runId);
    expect(attempts).toHaveLength(2);
    for (const { args } of attempts) {
      for (const folder of [world.root, world.cwd])
        expect(args.at(-1)).toContain(`${JSON.stringify(folder)}={trust_level="untrusted"}`);
    }
    const { handle } = await begin({ trustCwd: true }).turn.done;
    expect((await selectRun(world.deps(), handle)).launch.given).toEqual(["-s", "read-only"]);
  });

  test("warns about a writable sandbox before Codex is started", async () => {
    const { turn, updates } = begin({ sandbox: "workspace-write" });
    await turn.done;
    const warning = expect.stringMatching(/^With a writable sandbox Codex/);
    expect(updates[1]).toEqual({ type: "event", event: { type: "notice", message: warning } });
    expect(world.warnings).toEqual([warning]);
  });

  test("starts nothing without comments", async () => {
    await expect(begin({ comments: [] }).turn.done).rejects.toMatchObject({ code: "usage" });
    expect([sidecars(), world.journal()]).toEqual([[], []]);
  });

  test("opens no session without Codex, and the fault says so", async () => {
    rmSync(join(world.root, "codex"));
    await expect(begin().turn.done).rejects.toMatchObject({ code: "engine_missing" });
    expect(sidecars()).toEqual([]);
  });

  test("fails if Codex is not a program", async () => {
    writeFileSync(join(world.root, "codex"), "#!/nowhere/sh\n", { mode: 0o755 });
    await expect(begin().turn.done).rejects.toMatchObject({ code: "engine_missing" });
    expect(sidecars()).toMatchObject([{ status: "failed", thread_id: null }]);
  });

  test("is refused and names the run if Codex already works on the pull request in this checkout; elsewhere it begins", async () => {
    const first = begin({ plan: { hang: true } });
    await first.until("turn_started");
    const { handle } = sidecars()[0] ?? {};
    await expect(begin({}).turn.done).rejects.toMatchObject({
      code: "run_busy",
      message: expect.stringContaining(`already: run ${handle}.`),
    });
    expect(sidecars()).toHaveLength(1);
    const other = await begin({ pullRequest: { ...PULL, number: 43 } }).turn.done;
    expect(other.status).toBe("completed");
    first.turn.interrupt();
    await first.turn.done;
    expect((await begin({}).turn.done).status).toBe("completed");
  });

  test("is refused if another one begins at the same moment", async () => {
    const both = await Promise.allSettled([begin({}).turn.done, begin({}).turn.done]);
    expect(both.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    expect(sidecars()).toHaveLength(1);
  });

  test("does not mix the sessions of two pull requests", async () => {
    await begin({ plan: { dieAt: "at work" } }).turn.done;
    const other = { ...PULL, number: 43 };
    await begin({ plan: { dieAt: "at work" }, pullRequest: other }).turn.done;
    expect((await offered())?.sidecar).toMatch(/acme-shop-pr-42-/);
  });
});

describe("ending a turn", () => {
  test("by the user's interrupt is clean, and the session is offered again", async () => {
    const { turn, until } = begin({ plan: { hang: true } });
    await until("turn_started");
    turn.interrupt();
    expect(await turn.done).toMatchObject({ status: "interrupted", exitCode: 130, refused: null });
    expect(methods().at(-1)).toBe("turn/interrupt");
    expect(sidecars()).toMatchObject([{ status: "interrupted", finished_at: expect.any(String) }]);
    expect(told().slice(-3)).toEqual(["out turn/interrupt", "in answer 4", "in turn/completed"]);
    expect(await offered()).not.toBeNull();
  });

  test("before Codex is started keeps Codex from starting", async () => {
    const { turn } = begin();
    turn.interrupt();
    expect(await turn.done).toMatchObject({ status: "interrupted" });
    expect([methods(), sidecars()]).toMatchObject([[], [{ status: "interrupted", thread_id: null }]]);
    expect(await offered()).toBeNull();
  });

  test("by discarding it cancels the session for good", async () => {
    const { turn, until } = begin({ plan: { hang: true } });
    await until("turn_started");
    turn.discard();
    expect(await turn.done).toMatchObject({ status: "cancelled", exitCode: 130 });
    expect(sidecars()).toMatchObject([{ status: "cancelled" }]);
    expect(await offered()).toBeNull();
  });

  test.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
    ["SIGHUP", 129],
  ] as const)("by %s leaves it interrupted", async (signal, exitCode) => {
    let send: Parameters<NonNullable<TurnOptions["onSignal"]>>[0] = () => {};
    let listening = true;
    const { turn, until } = begin({
      plan: { hang: true },
      onSignal(listener) {
        send = listener;
        return () => {
          listening = false;
        };
      },
    });
    await until("turn_started");
    send(signal);
    expect(await turn.done).toMatchObject({ status: "interrupted", exitCode });
    expect([listening, sidecars()]).toMatchObject([false, [{ status: "interrupted" }]]);
    expect(await offered()).not.toBeNull();
  });
});

describe("Codex is killed", () => {
  /** Whether the thread was named by then, and whether Codex had written it. */
  const points: Record<string, "unnamed" | "named" | "written"> = {
    "before initialize": "unnamed",
    "after initialize": "unnamed",
    "before initialized": "unnamed",
    "before thread/start": "unnamed",
    "after thread/start": "named",
    "before turn/start": "named",
    written: "written",
    "after turn/start": "written",
    asked: "written",
    answered: "written",
    "at work": "written",
    "before turn/completed": "written",
  };
  test.each(Object.entries(points))("%s: offered again wherever it had written", async (dieAt, state) => {
    const plan = { dieAt, ask: ["touch a"] };
    expect(await begin({ plan, decide: "accept" }).turn.done).toMatchObject({
      status: "interrupted",
      refused: null,
    });
    const [sidecar] = sidecars();
    expect(sidecar?.["status"]).toBe("interrupted");
    expect(sidecar?.["thread_id"] === null).toBe(state === "unnamed");
    expect(transcript().length).toBeGreaterThan(0);
    const session = await offered();
    expect(session === null).toBe(state === "unnamed");
    if (session === null) return;
    const again = await begin({ resume: session, decide: "accept" }).turn.done;
    expect([again.status, again.refused !== null]).toEqual(
      state === "written" ? ["completed", false] : ["failed", true],
    );
    // A session that is gone for good is not offered forever.
    expect(sidecars()).toMatchObject([{ status: state === "written" ? "completed" : "failed" }]);
    expect(await offered()).toBeNull();
  });

  test.each(["before thread/resume", "after thread/resume", "before turn/start", "written", "at work"])(
    "in a resumed turn %s: the session is offered once more",
    async (dieAt) => {
      const session = await interrupted();
      expect(await begin({ resume: session, plan: { dieAt } }).turn.done).toMatchObject({
        status: "interrupted",
        refused: null,
      });
      expect(await offered()).toEqual(session);
      expect(await begin({ resume: session }).turn.done).toMatchObject({ status: "completed" });
      expect(told().filter((line) => line === "session_resumed")).toHaveLength(2);
    },
  );
});

describe("a resumed turn", () => {
  test("continues in the same thread, run and transcript, with today's comments", async () => {
    const session = await interrupted();
    const comments = [COMMENT, { ...COMMENT, id: "2", body: "and this" }];
    const { turn, updates } = begin({ resume: session, comments });
    expect(await turn.done).toMatchObject({ status: "completed", handle: session.handle });
    const resumed = world.journal().find(({ method }) => method === "thread/resume");
    expect(resumed?.["params"]).toMatchObject({
      threadId: session.threadId,
      excludeTurns: true,
      sandbox: "read-only",
      approvalPolicy: "on-request",
      cwd: world.cwd,
    });
    const prompt = world.journal().findLast(({ method }) => method === "turn/start")?.["params"]
      .input[0].text;
    expect(prompt).toMatch(/sent before[\s\S]*new/);
    expect(updates[0]).toEqual({ type: "begun", handle: session.handle, resumed: true });
    expect(transcript().find(({ type }) => type === "session_resumed")).toEqual({
      t: expect.any(String),
      type: "session_resumed",
      text: "--- session resumed ---",
      thread_id: session.threadId,
      handle: session.handle,
    });
    expect(told().indexOf("session_resumed")).toBeLessThan(told().indexOf("out thread/resume"));
    expect(sidecars()).toMatchObject([{ status: "completed", sent_comments: [/1@/, /2@/].map(match) }]);
    expect((await selectRun(world.deps(), session.handle)).attempts).toBe(2);
  });

  const refusals: Record<string, [plan: FakePlan, refused: RegExp]> = {
    "Codex has it open": [
      { refuse: "thread x already has an active writer" },
      /already has an active writer/,
    ],
    "its provider is gone": [
      { refuse: "model provider `x` is no longer configured" },
      /no longer configured/,
    ],
    "Codex gives no reason that is known": [{ refuse: "the moon is full" }, /the moon is full/],
    "it would get more rights": [{ wider: "dangerFullAccess" }, /instead of read-only/],
  };
  test.each(Object.entries(refusals))(
    "%s: is refused with the reason, and offered again",
    async (_name, [plan, why]) => {
      const session = await interrupted();
      const told0 = methods().filter((method) => method === "turn/start").length;
      const result = await begin({ resume: session, plan }).turn.done;
      expect(result).toMatchObject({ status: "failed", refused: match(why), handle: session.handle });
      expect(methods().filter((method) => method === "turn/start")).toHaveLength(told0);
      expect(sidecars()).toMatchObject([{ status: "interrupted", thread_id: session.threadId }]);
      expect(await offered()).toEqual(session);
      expect(await begin().turn.done).toMatchObject({ status: "completed" });
    },
  );

  test("is refused before anything is started if Codex has lost it and no copy exists", async () => {
    const session = await interrupted();
    rmSync(join(world.codexHome, "sessions"), { recursive: true });
    const { runDirectory } = await selectRun(world.deps(), session.handle);
    rmSync(join(runDirectory, "escrow"), { recursive: true, force: true });
    const before = [told(), world.journal()];
    const result = await begin({ resume: session }).turn.done;
    expect(result).toMatchObject({ status: "failed", exitCode: 3, refusedAs: "session_lost" });
    expect([told(), world.journal()]).toEqual(before);
    expect(sidecars()).toMatchObject([{ status: "failed" }]);
    expect(await offered()).toBeNull();
  });

  test("stays offered until a person decides if its session is unreadable and its copy whole", async () => {
    const session = await interrupted();
    const sessions = join(world.codexHome, "sessions");
    const names = readdirSync(sessions, { recursive: true, encoding: "utf8" });
    writeFileSync(join(sessions, names.find((name) => name.endsWith(".jsonl")) ?? ""), "{");
    const result = await begin({ resume: session }).turn.done;
    expect(result).toMatchObject({ status: "failed", exitCode: 5, undecided: true });
    expect(result.refused).toContain(`reprise resume ${session.handle} --restore-copy "…"`);
    expect(await offered()).toEqual(session);
    expect(sidecars()).toMatchObject([{ status: "interrupted" }]);
  });

  test("is refused once, and no longer offered, if Codex says that it has lost it", async () => {
    const session = await interrupted();
    const plan = { refuse: "no rollout found for thread id x" };
    const result = await begin({ resume: session, plan }).turn.done;
    expect(result).toMatchObject({ refused: match(/no rollout found/), refusedAs: "session_lost" });
    expect([sidecars(), await offered()]).toMatchObject([[{ status: "failed" }], null]);
  });

  test("in trouble before Codex got a message is no refusal, and stays as open as before", async () => {
    const session = await interrupted();
    const plan = { refuse: "unexpected status 401 Unauthorized" };
    expect(await begin({ resume: session, plan }).turn.done).toMatchObject({
      status: "failed",
      refused: null,
    });
    expect(await offered()).toEqual(session);
  });

  test("is refused as busy and stays offered while another session of the pull request works in the checkout", async () => {
    const session = await interrupted();
    const first = begin({ plan: { hang: true } });
    await first.until("turn_started");
    const result = await begin({ resume: session }).turn.done;
    expect(result).toMatchObject({ status: "failed", exitCode: 4, refusedAs: "run_busy" });
    expect(await offered()).toEqual(session);
    first.turn.interrupt();
    await first.turn.done;
  });

  test("is refused as busy while another turn of it is at work", async () => {
    const session = await interrupted();
    const first = begin({ resume: session, plan: { hang: true } });
    await first.until("turn_started");
    const result = await begin({ resume: session }).turn.done;
    expect(result).toMatchObject({ status: "failed", exitCode: 4, refusedAs: "session_busy" });
    expect(sidecars()).toMatchObject([{ status: "running" }]);
    first.turn.interrupt();
    await first.turn.done;
  });

  test("is refused a wider sandbox than it began with", async () => {
    const session = await interrupted();
    const result = await begin({ resume: session, sandbox: "workspace-write" }).turn.done;
    expect(result).toMatchObject({ status: "failed", exitCode: 8, refused: expect.any(String) });
  });

  test("is refused if its sidecar is damaged, and the file is left", async () => {
    const session = await interrupted();
    writeFileSync(session.sidecar, "{");
    const result = await begin({ resume: session }).turn.done;
    expect(result).toMatchObject({ status: "failed", exitCode: 5, refused: match(/session\.json/) });
    expect(readFileSync(session.sidecar, "utf8")).toBe("{");
  });

  test("starts a missing transcript over, and says so", async () => {
    const session = await interrupted();
    rmSync(session.sidecar.replace(/\.session\.json$/, ".jsonl"));
    expect(await begin({ resume: session }).turn.done).toMatchObject({ status: "completed" });
    expect(told().slice(0, 2)).toEqual(["note", "session_resumed"]);
  });
});

function match(pattern: RegExp): unknown {
  return expect.stringMatching(pattern);
}

describe("approvals", () => {
  const answers: readonly (readonly [QuestionAnswer, wire: string, status: string, kept: number])[] = [
    ["accept", "accept", "completed", 0],
    ["accept_for_session", "acceptForSession", "completed", 1],
    ["decline", "decline", "completed", 0],
    ["cancel", "cancel", "interrupted", 0],
  ];
  test.each(answers)(
    "%s is sent, written to the transcript, and remembered correctly",
    async (decide, wire, status, kept) => {
      const { turn, updates } = begin({ plan: { ask: ["touch a"] }, decide });
      expect(await turn.done).toMatchObject({ status });
      expect(world.journal().find(({ id, method }) => id === 0 && method === undefined)).toEqual({
        id: 0,
        result: { decision: wire },
      });
      expect(updates).toContainEqual({ type: "settled", id: "0", decision: decide });
      const lines = told();
      expect(lines.indexOf(`${decide} by user`)).toBeLessThan(lines.indexOf("out answer 0"));
      expect(lines.indexOf("in item/commandExecution/requestApproval")).toBeLessThan(
        lines.indexOf(`${decide} by user`),
      );
      expect(sidecars()[0]?.["approvals"]).toHaveLength(kept);
      expect(JSON.stringify(sidecars()[0]?.["approvals"]).includes("touch a")).toBe(kept === 1);
    },
  );

  test.each([
    [true, "accept by kept"],
    [false, "decline by user"],
  ])("for the session, resumed with keepApprovals %s: %s", async (keepApprovals, answer) => {
    const plan = { ask: ["touch a"], dieAt: "at work" };
    const session = await interrupted(plan, { decide: "accept_for_session" });
    const again = begin({ resume: session, keepApprovals, plan: { ask: ["touch a"] }, decide: "decline" });
    expect(await again.turn.done).toMatchObject({ status: "completed" });
    expect(told().filter((line) => line.includes(" by "))).toEqual(["accept_for_session by user", answer]);
  });

  test("that are remembered hold no value of a secret variable", async () => {
    const env = [["MY_TOKEN", "plainCanary00112233"]] as const;
    const plan = { ask: ["curl -d plainCanary00112233"] };
    await begin({ plan, decide: "accept_for_session", env }).turn.done;
    expect(sidecars()[0]?.["approvals"]).toMatchObject([
      { what: expect.stringContaining("curl -d [redacted:MY_TOKEN]") },
    ]);
  });

  test("that were kept apply only to the identical request", async () => {
    const plan = { ask: ["touch a"], dieAt: "at work" };
    const session = await interrupted(plan, { decide: "accept_for_session" });
    const ask = ["touch b", "touch a", "touch a "];
    await begin({ resume: session, keepApprovals: true, plan: { ask }, decide: "decline" }).turn.done;
    expect(
      told()
        .filter((line) => line.includes(" by "))
        .slice(1),
    ).toEqual(["decline by user", "accept by kept", "decline by user"]);
  });

  test("are declined by policy when nobody can be asked", async () => {
    const { turn, updates } = begin({ plan: { ask: ["touch a", "touch b"] }, attended: false });
    expect(await turn.done).toMatchObject({ status: "completed" });
    expect(told().filter((line) => line.includes(" by "))).toEqual([
      "decline by policy",
      "decline by policy",
    ]);
    expect(updates.filter(({ type }) => type === "settled")).toHaveLength(2);
  });

  test("that are open when Codex dies are given up, and asked again after the resume", async () => {
    const first = begin({ plan: { ask: ["touch a"], dieAt: "asked" } });
    await first.turn.done;
    expect(first.updates.at(-1)).toEqual({ type: "settled", id: "0", decision: null });
    first.turn.answer("0", "accept");
    const session = await offered();
    const again = begin({ resume: session, plan: { ask: ["touch a"] }, decide: "accept" });
    expect(await again.turn.done).toMatchObject({ status: "completed" });
    expect(told().filter((line) => line.includes(" by "))).toEqual(["accept by user"]);
  });

  test("that are open when an interrupt comes end with the turn", async () => {
    const { turn, updates, until } = begin({ plan: { ask: ["touch a"] } });
    await until('"question"');
    turn.interrupt();
    expect(await turn.done).toMatchObject({ status: "interrupted" });
    expect(updates).toContainEqual({ type: "settled", id: "0", decision: null });
  });
});

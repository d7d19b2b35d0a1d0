import { execFileSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type FakeGitHub, HEAD, rateLimited, startGitHub } from "../../test/github-server.ts";
import { openState } from "../state/directory.ts";
import { mergeConfig } from "../core/config.ts";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import * as processes from "../process/process.ts";
import type { Deps } from "../run/run.ts";
import { runLike } from "../../test/contracts/store-samples.ts";
import { memoryStore } from "../../test/contracts/memory-store.ts";
import { type ReviewServiceOptions, findPullRequest, openReviewService } from "./review-service.ts";
import { lookAtFolder } from "./folder.ts";
import type { ReviewComment } from "./review.ts";
import { createSession } from "./sidecar.ts";
import { reviewsDirectory } from "./transcript.ts";

const PULL = { host: "github.com", owner: "acme", repository: "shop", number: 42 };
const THREAD = "019e0000-0000-7000-8000-000000000001";
const COMMENT: ReviewComment = {
  id: "1",
  author: "octocat",
  association: null,
  filePath: "src/a.ts",
  line: 3,
  originalLine: 2,
  body: "x",
  diffHunk: "",
  commit: null,
  inReplyTo: null,
  createdAt: "2026-04-14T16:00:49Z",
  resolved: null,
};

let root: string;
let clone: string;
let deps: Deps;
let warnings: string[];
let fake: FakeGitHub;

beforeEach(async () => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-service-")));
  clone = join(root, "clone");
  mkdirSync(join(clone, "src"), { recursive: true });
  git("init", "-q", "-b", "faster");
  git("remote", "add", "origin", "https://x:ghp_secret@github.com/Acme/shop.git");
  fake = await startGitHub();
  warnings = [];
  deps = {
    state: await openState(join(root, "state")),
    store: memoryStore(),
    config: mergeConfig({}, {}),
    clock: { now: () => Date.parse("2026-04-14T16:00:00Z"), mono: () => 0 },
    env: { PATH: process.env["PATH"], HOME: root, GITHUB_TOKEN: "ghp_0123456789abcdefghijABCDEFGHIJ012345" },
    log: { warn: (message) => warnings.push(message), info: () => {} },
    processes: { ...processes, endTree: async () => ({ survivors: [] }) },
    machine: "here",
    demo: ["demo"],
    newHandle: () => "1a2b3c4d",
    newSessionId: () => THREAD,
  };
});

afterEach(async () => {
  await fake[Symbol.asyncDispose]();
  rmSync(root, { recursive: true, force: true });
});

function git(...args: string[]): string {
  const env = { PATH: process.env["PATH"], HOME: root, GIT_CONFIG_NOSYSTEM: "1" };
  const me = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
  return execFileSync("git", ["-C", clone, ...me, ...args], { encoding: "utf8", env }).trim();
}

async function open(change: Partial<ReviewServiceOptions> = {}) {
  const folder =
    change.folder === undefined ? { at: await lookAtFolder(deps, clone), force: false } : change.folder;
  return openReviewService(deps, {
    pullRequest: PULL,
    token: null,
    apiUrl: fake.url,
    commentsFile: null,
    includeAll: false,
    progress: () => {},
    begin: () => {
      throw new Error("not here");
    },
    ...change,
    folder,
  });
}

async function faultOf(work: Promise<unknown>): Promise<[string, string]> {
  try {
    await work;
  } catch (error) {
    if (error instanceof Fault) return [error.code, error.message];
    throw error;
  }
  throw new Error("no fault");
}

describe("the folder", () => {
  test.each([
    [["remote", "set-url", "origin", "git@github.com:acme/shop.git"], null],
    [["remote", "add", "upstream", "ssh://git@github.com/acme/shop"], null],
    [
      ["remote", "set-url", "origin", "https://github.com/acme/other"],
      "is a clone of acme/other, not of acme/shop",
    ],
    [
      ["remote", "set-url", "origin", "https://git.example.com/acme/shop"],
      "git.example.com/acme/shop, not of acme/shop",
    ],
    [["remote", "set-url", "origin", "/srv/shop"], "is a clone without a remote on GitHub"],
    [["remote", "remove", "origin"], "is a clone without a remote on GitHub"],
  ])("%j → %s", async (args, refusal) => {
    git(...args);
    if (refusal === null) return expect(await open()).toBeDefined();
    const [code, message] = await faultOf(open());
    expect([code, message]).toEqual(["cwd_invalid", expect.stringContaining(refusal)]);
    expect(message).toContain("--force-cwd");
    expect(await open({ folder: { at: await lookAtFolder(deps, clone), force: true } })).toBeDefined();
    expect(await open({ folder: null })).toBeDefined();
  });

  test("needs a clone and a directory", async () => {
    const at = await lookAtFolder(deps, root);
    expect(await faultOf(open({ folder: { at, force: false } }))).toEqual([
      "cwd_invalid",
      expect.stringContaining("is in no git clone, so in none of acme/shop"),
    ]);
    expect((await faultOf(lookAtFolder(deps, join(root, "gone"))))[0]).toBe("cwd_invalid");
  });

  test("costs one call of git before the first frame", async () => {
    const asked: string[] = [];
    deps = {
      ...deps,
      processes: {
        ...deps.processes,
        runTool: (file, args, options) => {
          asked.push(args.slice(2).join(" "));
          return processes.runTool(file, args, options);
        },
      },
    };
    const at = await lookAtFolder(deps, clone);
    await findPullRequest(deps, "42", { token: null, apiUrl: fake.url, folder: at });
    const service = await open({ folder: { at, force: false } });
    await service.load(false);
    expect(asked.toSorted()).toEqual([
      "config --list --show-scope --null",
      "remote -v",
      "rev-parse --absolute-git-dir",
      "rev-parse --show-toplevel",
      "rev-parse --verify --quiet HEAD^{commit}",
      "symbolic-ref --quiet --short HEAD",
    ]);
  });

  test("cannot be checked without git, and --force-cwd skips the check", async () => {
    const at = await lookAtFolder({ ...deps, env: { ...deps.env, PATH: root } }, clone);
    expect(await faultOf(open({ folder: { at, force: false } }))).toEqual([
      "platform_unsupported",
      expect.stringContaining("--force-cwd does without it"),
    ]);
    expect(await open({ folder: { at, force: true } })).toBeDefined();
  });

  test("that git refuses to look into is reported as refused", async () => {
    const refusing = async () => ({
      code: 128,
      signal: null,
      stdout: "",
      stderr: `fatal: detected dubious ownership in repository at '${clone}'`,
      timedOut: false,
    });
    const at = await lookAtFolder({ ...deps, processes: { ...deps.processes, runTool: refusing } }, clone);
    const says =
      "belongs to another user, so git does not look into it (git config --global --add safe.directory";
    expect((await faultOf(open({ folder: { at, force: false } })))[1]).toContain(says);
    const options = { token: null, apiUrl: fake.url, folder: at };
    expect((await faultOf(findPullRequest(deps, "7", options)))[0]).toBe("usage");
    await findPullRequest(deps, "acme/shop#42", options);
    expect(warnings).toEqual([expect.stringContaining(says)]);
  });

  test("with a different head is reported", async () => {
    writeFileSync(join(clone, "x"), "");
    git("add", ".");
    git("commit", "-qm", "x");
    const head = git("rev-parse", "HEAD");
    const service = await open();
    expect(await service.load(false)).toMatchObject({
      head: { pullRequest: HEAD, folder: head },
      warnings: [`The clone is at ${head.slice(0, 10)}, the pull request at 6dcb09b5b5: lines may differ.`],
    });
    fake.head = head;
    expect((await service.load(true)).warnings).toEqual([]);
    git("commit", "-q", "--allow-empty", "-m", "the clone moves on");
    expect((await service.load(true)).head).toEqual({ pullRequest: head, folder: git("rev-parse", "HEAD") });
  });
});

describe("code around a comment", () => {
  beforeEach(() => {
    writeFileSync(join(clone, "src/a.ts"), "one\ntwo\nthree\r\nfour\nfive\n");
    writeFileSync(join(clone, "binary"), Buffer.from([65, 0, 66]));
    writeFileSync(join(root, "outside"), "secret\n");
    symlinkSync(join(root, "outside"), join(clone, "link"));
    symlinkSync(root, join(clone, "up"));
    symlinkSync("src/a.ts", join(clone, "inside"));
    execFileSync("mkfifo", [join(clone, "fifo")]);
    writeFileSync(join(clone, "huge"), "");
    truncateSync(join(clone, "huge"), 1024 ** 3);
  });

  test.each([
    [{}, 1, ["two", "three", "four"]],
    [{}, 0, ["three"]],
    [{}, 100, ["one", "two", "three", "four", "five"]],
    [{ line: null }, 1, ["one", "two", "three"]],
    [{ line: null, originalLine: null }, 1, ["one", "two"]],
    [{ filePath: "inside" }, 0, ["three"]],
    [{ line: 6 }, 1, null],
    [{ line: 2_000_000_000 }, 1, null],
    [{ filePath: "../outside", line: 1 }, 1, null],
    [{ filePath: "src/../../outside", line: 1 }, 1, null],
    [{ filePath: "/etc/passwd", line: 1 }, 1, null],
    [{ filePath: "link", line: 1 }, 1, null],
    [{ filePath: "up/outside", line: 1 }, 1, null],
    [{ filePath: ".git/config", line: 1 }, 1, null],
    [{ filePath: "binary", line: 1 }, 1, null],
    [{ filePath: "fifo", line: 1 }, 1, null],
    [{ filePath: "huge", line: 1 }, 1, null],
    [{ filePath: "src", line: 1 }, 1, null],
    [{ filePath: "src/a.ts\0", line: 1 }, 1, null],
    [{ filePath: "x".repeat(10_000), line: 1 }, 1, null],
    [{ filePath: "", line: 1 }, 1, null],
  ])("%j", async (change, lines, then) => {
    expect(await (await open()).codeAround({ ...COMMENT, ...change }, lines)).toEqual(then);
  });
});

describe("loading", () => {
  test("asks GitHub once, and again for a fresh look", async () => {
    fake.comments = [{ id: 1, body: "a" }];
    const service = await open();
    const first = await service.load(false);
    expect(first).toMatchObject({ title: "Make it faster", comments: [{ id: "1", body: "a" }] });
    fake.comments = [...fake.comments, { id: 2, body: "b" }];
    expect(await service.load(false)).toBe(first);
    expect((await service.load(true)).comments).toHaveLength(2);
    expect(readdirSync(join(deps.state.root, "reviews")).toSorted()).toEqual(["cache"]);
  });

  test("does not remember a failure", async () => {
    const service = await open();
    fake.answer = () => rateLimited(1_790_000_000);
    expect((await faultOf(service.load(false)))[0]).toBe("github_limited");
    fake.answer = () => undefined;
    expect(await service.load(false)).toMatchObject({ comments: [] });
  });

  test("reads a file instead, without asking GitHub", async () => {
    const file = join(root, "comments.jsonl");
    writeFileSync(
      file,
      JSON.stringify({ id: 1, author: "a", file_path: "f", body: "b", created_at: "2026-04-14T16:00:49Z" }),
    );
    const loaded = await (await open({ commentsFile: file, folder: null })).load(false);
    expect(loaded).toMatchObject({
      comments: [{ id: "1" }],
      title: null,
      head: { pullRequest: null, folder: null },
    });
    expect(fake.asked).toEqual([]);
  });

  test("trusts authors who belong to the repository, or all authors", async () => {
    const words = ["OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR", "FIRST_TIMER", "NONE", "owner", null];
    const trusted = async (includeAll: boolean) => {
      const service = await open({ includeAll });
      return words.filter((association) => service.trusts({ ...COMMENT, association }));
    };
    expect(await trusted(false)).toEqual(["OWNER", "MEMBER", "COLLABORATOR"]);
    expect(await trusted(true)).toEqual(words);
  });
});

test("a turn gets the folder and the title, and has no place without a folder", async () => {
  const places: unknown[] = [];
  const turn = { done: new Promise<never>(() => {}), answer() {}, interrupt() {}, discard() {} };
  const begin: ReviewServiceOptions["begin"] = (_order, _update, place) => {
    places.push(place);
    return turn;
  };
  const order = { comments: [], resume: null };
  const service = await open({ begin });
  service.begin(order, () => {});
  await service.load(false);
  expect(service.begin(order, () => {})).toBe(turn);
  expect(places).toEqual([
    { cwd: clone, title: null },
    { cwd: clone, title: "Make it faster" },
  ]);
  const reader = await open({ begin, folder: null });
  expect(() => reader.begin(order, () => {})).toThrow("no folder");
});

describe("the pull request", () => {
  const find = async (text: string | null, cwd = clone) =>
    findPullRequest(deps, text, { token: null, apiUrl: fake.url, folder: await lookAtFolder(deps, cwd) });
  const shop = { ...PULL, owner: "Acme" };

  test("is found by a number, a name, or the branch", async () => {
    expect(await find("7")).toEqual({ ...shop, number: 7 });
    expect(await find("x/y#7", root)).toEqual({ host: "github.com", owner: "x", repository: "y", number: 7 });
    git("remote", "set-url", "origin", "https://github.com/acme/shop");
    expect(await find(null)).toEqual(PULL);
  });

  test("of a fork's branch belongs to the repository it was forked from", async () => {
    git("remote", "set-url", "origin", "https://github.com/me/shop");
    git("remote", "add", "upstream", "https://github.com/acme/shop");
    expect(await find(null)).toEqual(PULL);
    expect(fake.asked.map(({ path }) => new URL(path, "http://x").searchParams.get("head"))).toEqual([
      "acme:faster",
    ]);
  });

  test("is missing for this branch, or the clone is missing", async () => {
    git("remote", "set-url", "origin", "https://github.com/acme/shop");
    git("symbolic-ref", "HEAD", "refs/heads/other");
    expect((await faultOf(find(null)))[0]).toBe("pull_request_unknown");
    expect((await faultOf(find(null, root)))[0]).toBe("usage");
    expect((await faultOf(find("7", root)))[0]).toBe("usage");
  });
});

describe("sessions", () => {
  async function session(run: Partial<RunRecord>) {
    const record = runLike(1, { handle: "1a2b3c4d", subject: "pr:acme/shop#42", ...run });
    await deps.store.createRun(record);
    const directory = reviewsDirectory(deps.state);
    return createSession(directory, { pullRequest: PULL, handle: record.handle, now: deps.clock.now() });
  }

  test("a session whose owner is dead is offered with the run's thread, until it is declined", async () => {
    const { path } = await session({
      status: "running",
      session: { field: "thread_id", value: THREAD, source: "stdout", verifiedAt: null },
    });
    const service = await open();
    const found = await service.findInterrupted();
    expect(found).toEqual({
      sidecar: path,
      handle: "1a2b3c4d",
      threadId: THREAD,
      startedAt: "2026-04-14T16:00:00.000Z",
    });
    if (found !== null) await service.decline(found);
    expect(await service.findInterrupted()).toBeNull();
  });

  test("a session whose owner lives is not offered", async () => {
    await session({ status: "running" });
    const owner = { ...deps.processes.self(), machine: "here", renewedAtMs: deps.clock.now() };
    await deps.store.acquireLease(`run:${runLike(1, { handle: "1a2b3c4d" }).runId}`, owner, () => false);
    expect(await (await open()).findInterrupted()).toBeNull();
    expect(warnings).toEqual([]);
  });

  test("a session whose run is gone is named", async () => {
    createSession(reviewsDirectory(deps.state), {
      pullRequest: PULL,
      handle: "ffffffff",
      now: deps.clock.now(),
    });
    expect(await (await open()).findInterrupted()).toBeNull();
    expect(warnings).toEqual([expect.stringContaining("its run ffffffff is gone")]);
  });
});

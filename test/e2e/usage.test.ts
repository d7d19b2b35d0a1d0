/** `reprise usage`: what `docs/cli.md` promises about tokens, cost and limits. */
import { execFileSync } from "node:child_process";
import { appendFileSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Sandbox } from "./sandbox.ts";

let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
});
afterAll(() => box[Symbol.dispose]());

test("each attempt is counted once, though Codex reports totals of the conversation", async () => {
  const started = await box.json(["start", "codex", "one", "--", "-m", "gpt-test"]);
  expect(started["tokens"]).toMatchObject({ input: 100, output: 10 });
  const resumed = await box.json(["resume", started["handle"], "two"]);
  expect(resumed["tokens"]).toMatchObject({ input: 100, output: 10 });
  expect(resumed["sessionTokens"]).toMatchObject({ input: 200, output: 20 });
  const forked = await box.json(["resume", started["handle"], "three", "--fork"]);
  expect(forked["tokens"]).toMatchObject({ input: 100, output: 10 });
  const { groups } = await box.json(["usage", "--by", "run"]);
  expect(groups.map((group: any) => [group.key, group.attempts, group.input, group.output])).toEqual([
    [started["handle"], 2, 200, 20],
    [forked["handle"], 1, 100, 10],
  ]);
});

test("a configured price gives the cost of a model", async () => {
  const file = join(box.home, ".config", "reprise", "config.toml");
  mkdirSync(join(box.home, ".config", "reprise"), { recursive: true });
  writeFileSync(file, '[prices."gpt-test"]\ninput = 1000\noutput = 10000\n');
  const { groups, total } = await box.json(["usage", "--by", "model"]);
  expect(groups).toMatchObject([{ key: "gpt-test", input: 300, output: 30, unpriced: 0 }]);
  expect(total.costUsd).toBeCloseTo(0.6, 9);
  const { stdout } = await box.run(["usage", "--by", "model"]);
  expect(stdout).toBe(
    "MODEL      IN  CACHED  OUT  REASONING   COST\ngpt-test  300       0   30          -  $0.60\n",
  );
});

test("a project's file cannot set prices", async () => {
  writeFileSync(join(box.cwd, "reprise.toml"), '[prices."gpt-test"]\ninput = 0\noutput = 0\n');
  const refused = await box.run(["start", "demo", "hello"]);
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain("prices is not allowed in a project's file");
  writeFileSync(join(box.cwd, "reprise.toml"), "");
});

test("a limit is listed with its end, and a hostile model name is harmless", async () => {
  await box.run(["start", "demo", "@@429:reset=2030-01-01T00:00:00Z"]);
  const shown = await box.run(["usage", "--by", "engine", "--since", "1d"]);
  expect(shown.stdout).toMatch(/^LIMIT HIT +ENGINE +HANDLE +LIMIT$/m);
  expect(shown.stdout).toMatch(/demo +[0-9a-f]{8} +rate_limited until/);
  const { limits } = await box.json(["usage"]);
  expect(limits).toMatchObject([{ engine: "demo", kind: "rate_limited" }]);
  expect(Date.parse(limits[0].resetsAt)).toBeGreaterThan(Date.now());
  await box.run(["start", "codex", "x", "--", "-m", "\u001b]0;owned\u0007m"]);
  expect((await box.run(["usage", "--by", "model"])).stdout).not.toMatch(/[\u001b\u0007]/);
});

test("a wrong group or period is a usage error that names what to type", async () => {
  const group = await box.run(["usage", "--by", "week"]);
  expect([group.code, group.stderr]).toEqual([2, expect.stringContaining("day, engine, model, run, folder")]);
  expect((await box.run(["usage", "--since", "yesterday"])).code).toBe(2);
});

test("list and show have the totals of a run", async () => {
  const { groups } = await box.json(["usage", "--by", "run"]);
  const { key: handle, input, output } = groups[0];
  const { runs } = await box.json<{ runs: Record<string, any>[] }>(["list"]);
  expect(runs.find((run) => run["handle"] === handle)).toMatchObject({ tokens: { input, output } });
  expect((await box.json(["show", handle]))["tokens"]).toMatchObject({ input, output });
  expect((await box.run(["show", handle])).stdout).toMatch(
    new RegExp(`^tokens +${input} in, ${output} out, \\$0\\.40$`, "m"),
  );
  const { stdout } = await box.run(["list", "--sort", "tokens"]);
  expect(stdout).toMatch(/^HANDLE +ENGINE +STATUS +ATT +UPDATED +TOKENS +WHAT +WHERE\n/);
  expect(stdout.split("\n")[1]).toMatch(new RegExp(`^${handle} .* ${input + output} +one `));
  expect((await box.run(["list"])).stdout).not.toContain("TOKENS");
});

describe("a removed run", () => {
  const sums = async (...args: string[]): Promise<Record<string, any>> => {
    const { total, removed, limits } = await box.json(["usage", "--since", "0", ...args]);
    return { ...total, removed, limits: limits.length };
  };
  const file = () => join(box.state, "removed-usage.jsonl");

  test("still counts, with its limits, and a new index counts it once", async () => {
    const before = await sums();
    expect(before).toMatchObject({ removed: 0, limits: 1 });
    const runs = (await box.run(["list", "--handles"])).stdout.split("\n").filter(Boolean);
    expect((await box.run(["rm", ...runs])).code).toBe(0);
    expect(await sums()).toEqual({ ...before, removed: runs.length });
    rmSync(join(box.state, "index.db"));
    expect(await sums()).toEqual({ ...before, removed: runs.length });
    const { stdout } = await box.run(["usage", "--by", "engine"]);
    expect(stdout).toContain(`${runs.length} removed runs included.`);
    const { groups } = await box.json(["usage", "--by", "run"]);
    expect(groups.map(({ key }: { key: string }) => key).toSorted()).toEqual(runs.toSorted());
  });

  test("leaves figures alone: no message, no option, for its owner only", async () => {
    await box.json([
      "start",
      "demo",
      "token sk-ant-api03-aaaaaaaaaaaaaaaaaaaaaaaa words",
      "--name",
      "secret",
    ]);
    await box.run(["rm", "secret"]);
    expect(statSync(file()).mode & 0o777).toBe(0o600);
    const text = readFileSync(file(), "utf8");
    expect(text).not.toMatch(/words|sk-ant|secret/);
    expect(text).toContain('"engine":"demo"');
  });

  test("that comes back from the trash counts once, and so it does when it is removed again", async () => {
    const before = await sums();
    const git = (...args: string[]) =>
      execFileSync("git", args, { cwd: box.cwd, env: box.env(), stdio: "pipe" });
    git("init", "-q");
    git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "--allow-empty", "-m", "x");
    await box.json(["start", "demo", "hello", "--isolate", "worktree", "--name", "apart"]);
    const added = await sums();
    expect(added["attempts"]).toBe(before["attempts"] + 1);
    const { handle } = await box.json(["show", "apart"]);
    expect((await box.run(["rm", handle])).code).toBe(0);
    expect(await sums()).toEqual({ ...added, removed: before["removed"] + 1 });
    expect((await box.run(["rm", "--restore", handle])).code).toBe(0);
    expect(await sums()).toEqual(added);
    await box.json(["resume", handle, "more"]);
    const more = await sums();
    expect(more["attempts"]).toBe(added["attempts"] + 1);
    expect((await box.run(["rm", handle, "--discard-work"])).code).toBe(0);
    expect(await sums()).toEqual({ ...more, removed: before["removed"] + 1 });
  });

  test("counts after a line that was cut off, and prune keeps its figures as well", async () => {
    const before = await sums();
    appendFileSync(file(), '{"v":1,"runId":"2026');
    await box.json(["start", "demo", "one more", "--name", "last"]);
    const added = await sums();
    await box.run(["prune", "--older-than", "1ms"]);
    expect(await sums()).toEqual({ ...added, removed: before["removed"] + 1 });
    const { stderr } = await box.run(["usage"]);
    expect(stderr).toContain(`the sums lack 1 line of ${file()} that cannot be read.`);
  });

  test("whose figures cannot be kept is removed, and the command says so", async () => {
    rmSync(file());
    mkdirSync(file());
    await box.json(["start", "demo", "no room", "--name", "gone"]);
    const { code, stderr } = await box.run(["rm", "gone"]);
    expect([code, stderr]).toEqual([
      0,
      expect.stringMatching(/`reprise usage` does not count run [0-9a-f]{8}/),
    ]);
  });
});

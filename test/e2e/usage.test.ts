/** `reprise usage`: what `docs/cli.md` promises about tokens, cost and limits. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
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

/** An engine that refuses its command line begins no conversation: the run begins with the right options, or says what to type. */
import { expect, test } from "vitest";
import { AgentBox } from "../e2e/agent-box.ts";
import { IssueBox } from "../e2e/issue-box.ts";
import { Sandbox } from "../e2e/sandbox.ts";

test("issues of a batch with a mistyped native option begin with the corrected one, in the same runs", async () => {
  using box = new IssueBox();
  box.issue("a", "@@write:a.txt");
  box.commit();
  const wrong = await box.run(["issues", "run", "--engine", "codex", "--", "--modle", "opus"]);
  expect(wrong).toMatchObject({ code: 10 });
  // The same options would be refused again.
  expect(wrong.stderr).toContain("reprise issues run --resume --engine codex -- '…'\n");
  expect(wrong.stderr).toContain("Put the right options in place of …, which were --modle opus: ");
  const resume = ["issues", "run", "--resume"];
  const handle = box.batches().at(-1)?.issues["a"]?.handle;
  const right = ["--", "--model", "opus"];
  const { issues } = await box.json([...resume, "--dry-run", ...right]);
  expect(issues).toMatchObject([{ id: "a", do: "fresh", handle }]);
  expect(issues[0].options.join(" ")).toMatch(/--model opus$/);
  expect(issues[0].options.join(" ")).not.toContain("--modle");
  expect(issues[0].why).toMatch(/^no conversation ever began: .* refused its command line \(.*--modle/);
  const done = await box.run([...resume, ...right]);
  expect(done).toMatchObject({ code: 0 });
  expect(done.stderr).not.toMatch(/has the earlier one|does not have session/);
  expect(box.batches().at(-1)?.issues["a"]).toMatchObject({ status: "completed", handle });
});

test("a run that never began gets no more rights than it was started with, and the plan names the way out", async () => {
  using box = new IssueBox();
  box.issue("a", "@@write:a.txt");
  box.commit();
  const run = ["issues", "run", "--engine", "demo", "--access", "read", "--", "--modle", "opus"];
  expect(await box.run(run)).toMatchObject({ code: 10 });
  const { issues } = await box.json(["issues", "run", "--resume", "--access", "full", "--dry-run"]);
  expect(issues).toMatchObject([{ id: "a", do: "leave" }]);
  expect(issues[0].why).toMatch(/without --access all, .* To restart it, set its status to open$/);
  // Nothing behind the dashes: no native options.
  const dropped = await box.json(["issues", "run", "--resume", "--dry-run", "--"]);
  expect(dropped["issues"]).toMatchObject([{ do: "fresh", options: ["--access", "read"] }]);
});

test("a run whose engine refused its options offers a new run, and no conversation that never existed", async () => {
  using box = new Sandbox();
  const started = await box.run(["start", "demo", "hi", "--", "--modle", "x"]);
  expect(started).toMatchObject({ code: 1 });
  expect(started.stderr + started.stdout).not.toContain("--force-fresh");
  const { runs } = await box.json(["list"]);
  const { handle } = runs[0];
  const resumed = await box.run(["resume", handle, "more"]);
  expect(resumed).toMatchObject({ code: 3 });
  expect(resumed.stderr).toContain(
    `Run ${handle} cannot be resumed: no conversation ever began: Demo agent refused its command line (unknown option or missing value: --modle). ` +
      'Start a new run with the right options: reprise start demo "…"',
  );
  expect((await box.run(["show", handle])).stdout).toMatch(/^next +reprise start demo "…"/m);
});

const TRUST = { env: { REPRISE_DEMO_TRUST: "required" } };

test("a Gemini batch that needs trust says so, and --trust-cwd lets runs begin that never began", async () => {
  using box = new IssueBox();
  box.issue("a", "@@write:a.txt");
  box.commit();
  const first = await box.run(["issues", "run", "--engine", "gemini"], TRUST);
  expect(first).toMatchObject({ code: 10 });
  expect(first.stderr).toMatch(/reprise issues run --resume --engine gemini\n.*Add --trust-cwd, unless/);
  const trusting = await box.run(["issues", "run", "--resume", "--engine", "gemini", "--trust-cwd"], TRUST);
  expect(trusting).toMatchObject({ code: 0 });
  expect(trusting.stderr).not.toContain("was started without --trust-cwd");
  const alone = await box.run(["start", "gemini", "hi", "--", "--model", "pro"], TRUST);
  const [handle] = /[0-9a-f]{8}/.exec(/^handle .*$/m.exec(alone.stdout + alone.stderr)?.[0] ?? "") ?? [""];
  const offered = `reprise resume ${handle} --force-fresh --trust-cwd "…"`;
  const { stdout: shown } = await box.run(["show", handle], TRUST);
  expect(shown).toContain(offered);
  for (const said of [shown, alone.stderr])
    expect(said).toMatch(/^session +none: no conversation ever began$/m);
  const refused = await box.run(["resume", handle, "more", "--trust-cwd"], TRUST);
  expect(refused).toMatchObject({ code: 3, stderr: expect.stringContaining(offered) });
  const begun = await box.run(["resume", handle, "--force-fresh", "--trust-cwd", "hi", "--json"], TRUST);
  expect(begun).toMatchObject({ code: 0 });
  expect((await box.json(["show", handle]))["history"][1].args.join(" ")).toContain("--model pro");
});

test("an agent whose engine refused its options is not reported as lost, and says what to change", async () => {
  await using box = new AgentBox();
  box.runbook(
    '[agent.worker]\nrun = "demo --modle x"\nmode = "headless"\nprompt = "work"\non_dead = "resume"\n',
  );
  const id = await box.start("worker");
  const { view } = await box.shown(id, "asked", (shown) => shown.view.decision !== null);
  const { decision } = await box.json(["decisions", "show", view.decision ?? ""]);
  expect(decision.what).toContain(
    "Its engine refused to start (unknown option or missing value: --modle). Correct its options in the runbook",
  );
  const labels = decision.options.map(({ label }: { label: string }) => label);
  expect(labels.join("; ")).not.toContain("conversation");
  const again = await box.run(["agent", "resume", id]);
  expect(again).toMatchObject({ code: 1 });
  expect(again.stdout + again.stderr).toContain(
    "no conversation ever began: Demo agent refused its command line (unknown option or missing value: --modle). Correct its options in the runbook",
  );
  expect((await box.show(id)).attempts).toHaveLength(1);
  const stopped = await box.run(["agent", "stop", id]);
  expect(stopped.stdout).not.toContain("agent resume");
  expect(stopped.stdout).toMatch(
    /cannot be resumed: .* refused its command line .*`reprise agent run worker`/,
  );
});

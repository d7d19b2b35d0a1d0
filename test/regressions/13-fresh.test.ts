/** What a fresh pair of eyes found: hints that led nowhere, and words that said more than had happened. */
import { readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { AgentBox } from "../e2e/agent-box.ts";
import { HolderBox, isAlive } from "../e2e/holder-box.ts";
import { ReviewBox } from "../e2e/review-box.ts";
import { type Sandbox, until } from "../e2e/sandbox.ts";
import { HAS_TMUX, Screen } from "../e2e/screen.ts";

const ASKING = `
[agent.ui]
engine = "claude"
mode = "interactive"
prompt = "hello @@ask:pwd"
on_idle = "escalate"
`;

const WORKING = `
[agent.worker]
engine = "claude"
mode = "headless"
prompt = "work @@wait:600000"
`;

describe("offered commands for a live agent work", () => {
  test("--kill is not offered for an agent that asks for permission, alone and with --all", async () => {
    await using box = new AgentBox();
    box.runbook(ASKING);
    const id = await box.start("ui");
    await box.shown(id, "asking", ({ view }) => view.state === "waiting");
    for (const which of [id, "--all"]) {
      const { stdout } = await box.run(["agent", "resume", which]);
      expect(stdout).toContain("asks for permission; attach to it and answer, or stop it first");
      expect(stdout).not.toContain("--kill");
    }
  });

  test("a working agent gets no message, and no option is named that `agent send` does not have", async () => {
    await using box = new AgentBox();
    box.runbook(WORKING);
    const id = await box.start("worker");
    await box.told();
    const { code, stderr } = await box.run(["agent", "send", id, "hi"]);
    expect([code, stderr]).toEqual([4, expect.stringContaining("send a message when its turn is over")]);
    expect(stderr).not.toContain("--kill");
    expect((await box.run(["agent", "resume", id])).stdout).toContain("; --kill would end it and resume it");
  });
});

describe("the files of a review go with its run", () => {
  const files = (box: ReviewBox) => readdirSync(box.reviews).filter((name) => name.includes("-pr-"));
  const damages: Readonly<Record<string, (sidecar: string) => void>> = {
    "is empty": (path) => writeFileSync(path, ""),
    "is torn": (path) => writeFileSync(path, '{"status":"comp'),
    "was moved as doctor says": (path) => {
      writeFileSync(path, "no");
      renameSync(path, `${path}.damaged`);
    },
    "is gone": (path) => rmSync(path),
  };

  test.each(Object.entries(damages))("even if the sidecar %s", async (_how, damage) => {
    using box = new ReviewBox();
    await box.fromFile();
    await box.fromFile();
    const [first, second] = box.sidecars();
    const [path = ""] = box.sidecarPaths();
    const isFirst = path.includes(String(first?.["transcript_path"]).replace(".jsonl", ".session.json"));
    const [gone, stays] = isFirst ? [first, second] : [second, first];
    damage(path);
    const { code, stdout } = await box.run(["rm", String(gone?.["handle"])]);
    expect([code, stdout]).toEqual([0, `Removed run ${gone?.["handle"]}.\n`]);
    expect(files(box).toSorted()).toEqual(
      [
        String(stays?.["transcript_path"]),
        String(stays?.["transcript_path"]).replace(".jsonl", ".session.json"),
      ].toSorted(),
    );
  });

  test("stay and are named if their owner is unknown", async () => {
    using box = new ReviewBox();
    await box.fromFile();
    const [{ handle, transcript_path: transcript } = {}] = box.sidecars();
    const [path = ""] = box.sidecarPaths();
    writeFileSync(path, "");
    writeFileSync(path.replace(".session.json", ".jsonl"), "");
    const { stderr } = await box.run(["rm", String(handle)]);
    expect(stderr).toContain(`${transcript} stays where it is`);
    expect((await box.run(["doctor"])).stdout).not.toContain("its run can be resumed");
  });
});

describe("a live run whose index is gone can be ended", () => {
  const loseIndex = (box: Sandbox) => {
    for (const name of readdirSync(box.state)) if (name.startsWith("index.db")) rmSync(join(box.state, name));
  };

  test("by the command that every other command names, even without a terminal", async () => {
    using box = new HolderBox();
    const handle = await box.detach("claude", "work @@wait:600000");
    const pid = box.pid(handle);
    await until("the agent to be told", () => box.journalEntries().some(({ event }) => event === "message"));
    loseIndex(box);
    const refused = await box.run(["list"]);
    expect(refused.stderr).toContain(`To end it now: reprise stop ${handle} (or: kill ${pid})`);
    expect(isAlive(pid)).toBe(true);
    const stopped = await box.run(["stop", handle]);
    expect([stopped.code, stopped.stderr]).toEqual([0, expect.stringContaining(`asked pid ${pid} to stop`)]);
    expect([isAlive(pid), stopped.stdout]).toEqual([false, expect.stringContaining(`Run ${handle} `)]);
    expect((await box.run(["list"])).stdout).toContain(handle);
  });

  test("by `agent stop` for an idle UI agent, which also ends its supervision", async () => {
    await using box = new AgentBox();
    box.runbook(
      ASKING.replace(" @@ask:pwd", "").replace('"escalate"', '{ action = "escalate", cooldown = "1h" }'),
    );
    const id = await box.start("ui");
    const { attempts } = await box.shown(id, "idle", ({ view }) => view.state === "idle");
    const pid = attempts.at(-1)?.owner.pid ?? 0;
    loseIndex(box);
    const stopped = await box.run(["agent", "stop", id]);
    expect([stopped.code, stopped.stdout]).toEqual([0, expect.stringContaining(`Agent ${id} `)]);
    expect(isAlive(pid)).toBe(false);
    expect((await box.show(id)).view.phase).toBe("stopped");
  });
});

describe("a review without a UI reports the fate of an interrupted session", () => {
  test("without comments it is not resumed, which is no success for --resume always", async () => {
    using box = new ReviewBox();
    await box.cued("die:end");
    const [{ handle } = {}] = box.sidecars();
    box.comments();
    const says = `the interrupted session of run ${handle} was not resumed: \`reprise resume ${handle}\` goes on with it`;
    const always = await box.fromFile(["--resume", "always"]);
    expect([always.code, always.stderr]).toEqual([1, expect.stringContaining(says)]);
    const auto = await box.fromFile(["--json"]);
    expect([auto.code, JSON.parse(auto.stdout)]).toEqual([
      0,
      expect.objectContaining({
        status: "nothing",
        handle: null,
        reason: expect.stringContaining(says) as string,
      }),
    ]);
  });

  test("a session whose resume is refused is not called resumed", async () => {
    using box = new ReviewBox();
    await box.cued("die:end");
    const { code, stderr } = await box.fromFile(["--sandbox", "workspace-write", "--resume", "always"]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("The session cannot be resumed")]);
    expect(stderr).not.toContain("resuming it");
  });
});

test.skipIf(!HAS_TMUX)(
  "an offer to resume a review that was completed elsewhere is withdrawn, and Codex gets no message",
  async () => {
    using box = new ReviewBox();
    await box.cued("die:end");
    const [{ handle } = {}] = box.sidecars();
    using screen = new Screen(box);
    screen.type(`reprise review acme/shop#42 --comments ${box.commentsFile}; echo "ENDED $?"`);
    await screen.shows("Prices are floats");
    screen.key("x");
    await screen.shows("Resume? [y/n]");
    expect((await box.run(["resume", String(handle), "finish it"])).code).toBe(0);
    const told = () => box.journalEntries().filter(({ event }) => event === "message").length;
    const before = told();
    screen.key("y");
    await screen.shows(/completed meanwhile[^]*Start fresh\? \[y\/n\]/);
    expect(told()).toBe(before);
    expect(box.sidecars()).toMatchObject([{ status: "completed", attempts: 2 }]);
    screen.key("n");
    screen.key("q");
    await screen.shows(/^ENDED 0$/m);
  },
);

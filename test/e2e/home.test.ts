/** The home screen in a real terminal: `reprise` alone shows what runs, acts on it, and leaves the terminal as it was. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AgentBox } from "./agent-box.ts";
import { Sandbox, until } from "./sandbox.ts";
import { HAS_TMUX, Screen } from "./screen.ts";

const EVIL = "\u001b]0;owned\u0007\u001b[2J\u202etxt";
const NORMAL = "0 1 1";
const modes = (screen: Screen) => screen.facts("#{alternate_on} #{cursor_flag} #{wrap_flag}");

let box: Sandbox;
let cart: string;

beforeAll(async () => {
  box = new Sandbox();
  ({ handle: cart } = await box.json<{ handle: string }>(["start", "demo", "rename the cart module"]));
  await box.json(["start", "demo", `evil ${EVIL}`]);
}, 60_000);
afterAll(() => box[Symbol.dispose]());

test("without a terminal, and before the first run, reprise alone prints help", async () => {
  expect(await box.run([])).toMatchObject({ code: 2, stdout: "" });
  using fresh = new Sandbox();
  if (!HAS_TMUX) return;
  using screen = new Screen(fresh, { name: "fresh" });
  await screen.command("reprise").then(({ code }) => expect(code).toBe(2));
});

describe.skipIf(!HAS_TMUX)("in tmux", () => {
  test.each([
    [80, 24],
    [120, 40],
    [200, 50],
  ])("%i × %i: shows runs with the latest output, and the log of one", async (cols, rows) => {
    using screen = new Screen(box, { name: `size-${cols}`, cols, rows });
    screen.type(`reprise; echo "ENDED $?"`);
    const first = await screen.shows(/HANDLE +WHAT[^]*You said "evil/);
    const shown = first.split("\n").map((line) => line.trimEnd());
    expect(shown[0]).toMatch(/^reprise +0 live, 2 of 2, by activity$/);
    expect(shown[2]).toMatch(/^❯ [0-9a-f]{8} +evil .* demo +completed +(?:now|\d+ \S+) +\d+$/);
    expect(shown[3]).toMatch(new RegExp(`^  ${cart} +rename the cart mod\\S* +demo +completed `));
    for (const line of shown) expect(line.length).toBeLessThanOrEqual(cols);
    expect(screen.facts("#{pane_title}")).not.toContain("owned");
    screen.key("/");
    // The letters of a word may all be in the random name of the folder.
    screen.tmux("send-keys", "-l", cart);
    await screen.shows("1 of 2");
    screen.key("Enter");
    screen.key("Enter");
    const log = await screen.shows("Press Enter to return to the home screen.");
    expect(log).toMatch(/^> rename the cart module$/m);
    screen.key("Enter");
    await screen.shows("1 of 2");
    screen.key("q");
    await screen.shows(/^ENDED 0$/m);
    expect(modes(screen)).toBe(NORMAL);
  });

  test("resumes a run in the background, shows it live, and stops it", async () => {
    using screen = new Screen(box, { name: "live", cols: 120, rows: 30 });
    screen.type(`reprise; echo "ENDED $?"`);
    await screen.shows("by activity");
    screen.key("/");
    screen.tmux("send-keys", "-l", cart);
    await screen.shows("1 of 2");
    screen.key("Enter");
    screen.key("r");
    await screen.shows("in the background");
    screen.tmux("send-keys", "-l", "go on @@wait:600000");
    await screen.shows("go on @@wait");
    screen.key("Enter");
    await screen.shows(new RegExp(`${cart} +rename .* running`));
    await screen.shows("1 live");
    screen.key("Enter");
    await screen.shows("Ctrl-C returns to the home screen.");
    await screen.shows("go on @@wait");
    screen.key("C-c");
    await screen.shows(`reprise  /${cart}`);
    screen.key("s");
    await screen.shows(`Stop run ${cart}? [y/n]`);
    screen.key("y");
    await screen.shows("Press Enter to return to the home screen.");
    screen.key("Enter");
    await screen.shows(new RegExp(`${cart} +rename .* (?:cancelled|interrupted)`));
    screen.key("C-c");
    await screen.shows(/^ENDED 0$/m);
    expect((await box.json(["show", cart]))["status"]).not.toBe("running");
  });

  test("n starts a run in the background in a folder", async () => {
    using fresh = new Sandbox();
    await fresh.json(["start", "demo", "the first run"]);
    using screen = new Screen(fresh, { name: "new", cols: 120, rows: 30 });
    screen.type(`reprise; echo "ENDED $?"`);
    await screen.shows("1 of 1");
    screen.key("n");
    await screen.shows(/New run in the background[^]*Engine[^]*demo/);
    screen.key("Enter");
    await screen.shows(/Folder[^]*project/);
    screen.key("Enter");
    await screen.shows("Prompt");
    screen.tmux("send-keys", "-l", "--", "- second run");
    await screen.shows("- second run");
    screen.key("Enter");
    await screen.shows(/^..[0-9a-f]{8} +- second run +demo +completed /m);
    screen.key("q");
    await screen.shows(/^ENDED 0$/m);
    const { runs } = await fresh.json<{ runs: { cwd: string; launch: { message: string } }[] }>(["list"]);
    expect(runs.map((run) => [run.cwd, run.launch.message.trim()])).toContainEqual([
      fresh.cwd,
      "- second run",
    ]);
  });

  test("d answers the question of an agent", async () => {
    await using agents = new AgentBox();
    agents.runbook(
      '[agent.fixer]\nengine = "claude"\nmode = "headless"\nprompt = "work @@wait:600000"\non_dead = "escalate"\n',
    );
    const id = await agents.start("fixer");
    process.kill(await agents.told(), "SIGKILL");
    const { view } = await agents.shown(id, "asked", (one) => one.view.decision !== null);
    const decision = String(view.decision);
    const { options } = (
      await agents.json<{ decision: { options: { n: number; does: string }[] } }>([
        "decisions",
        "show",
        decision,
      ])
    ).decision;
    using screen = new Screen(agents, { name: "decide", cols: 120, rows: 30 });
    screen.type(`reprise; echo "ENDED $?"`);
    await screen.shows(new RegExp(`^❯ ${decision} +decision `, "m"));
    screen.key("d");
    await screen.shows(new RegExp(`Answer ${decision}\\s+1\\. `));
    screen.tmux("send-keys", "-l", String(options.find(({ does }) => does === "done")?.n));
    await screen.shows(/> \d/);
    screen.key("Enter");
    await screen.shows("Press Enter to return to the home screen.");
    screen.key("Enter");
    await agents.shown(id, "done", (one) => one.view.phase === "done");
    screen.key("q");
    await screen.shows(/^ENDED 0$/m);
  });

  test("says until when a run is limited, and when it is resumed", async () => {
    await using agents = new AgentBox();
    const reset = new Date(Date.now() + 3_600_000).toISOString();
    await agents.run(["start", "demo", `@@429:reset=${reset}`]);
    using screen = new Screen(agents, { name: "limited", cols: 160, rows: 30 });
    screen.type(`reprise; echo "ENDED $?"`);
    const shown = await screen.shows(/ limited .*resets in 1 h/);
    const handle = /❯ ([0-9a-f]{8})/.exec(shown)?.[1] ?? "";
    await agents.json(["resume", handle, "--when-reset", "go on"]);
    await screen.shows(/ limited .*resume at .*\d\d:\d\d/);
    screen.key("q");
    await screen.shows(/^ENDED 0$/m);
  });

  test("a finished run that is removed elsewhere leaves the screen", async () => {
    const { handle } = await box.json<{ handle: string }>(["start", "demo", "soon removed"]);
    using screen = new Screen(box, { name: "removed", cols: 80, rows: 24 });
    screen.type(`reprise; echo "ENDED $?"`);
    await screen.shows(new RegExp(`${handle} +soon removed`));
    await box.run(["rm", handle]);
    await until("the row is gone", () => !screen.text().includes(handle));
    screen.key("q");
    await screen.shows(/^ENDED 0$/m);
  });

  test("n refuses an unknown engine in its field, and d says that there is no decision", async () => {
    using screen = new Screen(box, { name: "unknown", cols: 120, rows: 30 });
    screen.type(`reprise; echo "ENDED $?"`);
    await screen.shows("by activity");
    screen.key("d");
    await screen.shows("has no open decision.");
    screen.key("n");
    await screen.shows("Engine (empty: demo)");
    screen.tmux("send-keys", "-l", "dmeo");
    await screen.shows("> dmeo");
    screen.key("Enter");
    await screen.shows('"dmeo" is not an engine here');
    screen.key("C-u");
    for (const label of ["Folder", "Prompt"]) {
      screen.key("Enter");
      await screen.shows(new RegExp(`^${label}$`, "m"));
    }
    screen.tmux("send-keys", "-l", "written at home");
    await screen.shows("> written at home");
    screen.key("Enter");
    await screen.shows(/❯? [0-9a-f]{8} +written at home/);
    screen.key("q");
    await screen.shows(/^ENDED 0$/m);
  });

  test("a resize in the middle redraws, and kill -9 leaves the terminal as it was", async () => {
    using screen = new Screen(box, { name: "killed", cols: 80, rows: 24 });
    screen.type("stty -a > modes-before");
    screen.type("sh -c 'echo $$ > home.pid; exec reprise'");
    await screen.shows("by activity");
    const width = (columns: number) => screen.text().split("\n")[0]?.trimEnd().length === columns;
    screen.resize(120, 40);
    await until("the screen fills the new size", () => width(120));
    screen.resize(80, 24);
    await until("the screen fits the old size", () => width(80));
    screen.tmux("run-shell", `kill -9 $(cat ${box.cwd}/home.pid)`);
    await until("the screen is the old one", () => modes(screen) === NORMAL);
    await screen.answers("stty -a > modes-after; cmp modes-before modes-after && echo SA''ME", "SAME");
  });

  test("colours follow --color and NO_COLOR", async () => {
    using screen = new Screen(box, { name: "colours", cols: 100, rows: 24 });
    await screen.command("reprise list --color=always | cat -v");
    expect(screen.text()).toContain("^[[32mcompleted");
    await screen.command("reprise list --color=never; NO_COLOR=1 reprise list");
    expect(screen.painted()).not.toContain("\u001b[32m");
    await screen.command("reprise list");
    expect(screen.painted()).toContain("\u001b[32m");
  });
});

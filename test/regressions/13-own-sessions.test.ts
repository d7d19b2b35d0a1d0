/** A run never takes a conversation that may be somebody else's: another run's, or that of an agent Reprise did not start. */
import { spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { HAS_TMUX, Screen } from "../e2e/screen.ts";
import { ACTOR, collect, Sandbox, until } from "../e2e/sandbox.ts";

let box: Sandbox;
beforeEach(() => {
  box = new Sandbox();
});
afterEach(() => box[Symbol.dispose]());

/** The session that an agent was in when it heard something last. */
function lastSpoken(): string {
  return String(box.journalEntries().findLast(({ event }) => event === "message")?.["session"]);
}

describe.skipIf(!HAS_TMUX)("two UIs in one folder", () => {
  let x: Screen;
  let y: Screen;
  beforeEach(() => {
    x = new Screen(box, { name: "x" });
    y = new Screen(box, { name: "y" });
  });
  afterEach(() => {
    x[Symbol.dispose]();
    y[Symbol.dispose]();
  });

  async function open(screen: Screen, command: string): Promise<void> {
    screen.type(`${command}; echo "ENDED $?"`);
    await screen.shows(/^\w+> $/m);
  }

  async function leave(screen: Screen): Promise<any> {
    screen.key("C-c");
    const text = await screen.shows(/^ENDED \d+$/m);
    return box.json(["show", /^handle\s+([0-9a-f]{8})/m.exec(text)?.[1] ?? ""]);
  }

  test.each(["first", "last"])("a UI without a message, left %s, has no session", async (when) => {
    await open(x, "reprise start codex");
    await open(y, "reprise start codex");
    y.type("remember 4711");
    await y.shows('You said "remember 4711"');
    const spoken = lastSpoken();
    // Which of two live UIs a conversation is in shows by the file that it has open.
    const records = box.runDirectories().map((directory) => join(directory, "run.json"));
    await until("the conversation is on disk", () =>
      records.some((file) => readFileSync(file, "utf8").includes(spoken)),
    );
    const left =
      when === "first" ? [await leave(x), await leave(y)] : [await leave(y), await leave(x)].toReversed();
    const [silent, talked] = left as [any, any];
    expect(silent).toMatchObject({ session: { value: null } });
    expect(talked).toMatchObject({ session: { value: spoken } });
    const refused = await box.json(["resume", silent.handle, "what do you remember?"]);
    expect(refused).toMatchObject({ ok: false });
    const resumed = await box.json(["resume", talked.handle, "what do you remember?"]);
    expect(resumed["text"]).toContain("4711");
  });

  test.each(["codex", "gemini"])(
    "%s: a UI does not take the session of a UI that Reprise did not start",
    async (engine) => {
      await open(x, `reprise start ${engine}`);
      await open(y, engine);
      y.type("remember 4711");
      await y.shows('You said "remember 4711"');
      const silent = await leave(x);
      expect(JSON.stringify(silent.sessions)).not.toContain(lastSpoken());
    },
  );
});

describe("two agents with the same message in one folder", () => {
  const FLAGS = { begun: "begun", over: "over" } as const;
  const flag = (name: keyof typeof FLAGS) => join(box.root, FLAGS[name]);

  /** One begins a conversation and lives until the other is over; the other fails and leaves no session. */
  function twoOf(engine: string): void {
    const agent = `"${process.execPath}" "${ACTOR}" --as ${engine} -- "$@"`;
    const waitFor = (name: keyof typeof FLAGS) => `while [ ! -e '${flag(name)}' ]; do sleep 0.05; done`;
    const talks = `${agent}; touch '${flag("begun")}'; ${waitFor("over")}; exit 0`;
    const fails = `touch '${join(box.root, "waits")}'; ${waitFor("begun")}; echo 'Error: 429' >&2; exit 1`;
    box.program(engine, `case "$1$ROLE" in --version*) ${agent};; *talks) ${talks};; *) ${fails};; esac`);
  }

  const ARGS: Readonly<Record<string, readonly string[]>> = {
    claude: ["-p", "the same plan"],
    gemini: ["-p", "the same plan"],
    opencode: ["run", "the same plan"],
  };

  test("two runs take no session of which they cannot be certain", async () => {
    twoOf("gemini");
    const start = (ROLE: string) =>
      box.json(["start", "gemini", "--", ...(ARGS["gemini"] ?? [])], { env: { ROLE } });
    const failing = start("fails");
    await until("the first agent lives", () => existsSync(join(box.root, "waits")));
    const talking = start("talks");
    const failed = await failing;
    writeFileSync(flag("over"), "");
    const talked = await talking;
    expect(failed["session"].value).toBeNull();
    expect(failed["diagnostics"].join()).toContain(`run ${talked["handle"]} may have begun it`);
    expect(talked["outcome"].result).toBe("completed");
    expect([null, lastSpoken()]).toContain(talked["session"].value);
    if (talked["session"].value === null)
      expect(talked["diagnostics"].join()).toContain(`run ${failed["handle"]} may have begun it`);
    const refused = await box.json(["resume", failed["handle"], "go on"]);
    expect(refused).toMatchObject({ ok: false });
  });

  test.each(Object.keys(ARGS))(
    "%s takes no session while an agent that Reprise did not start runs beside it",
    async (engine) => {
      twoOf(engine);
      const args = ARGS[engine] ?? [];
      const env = box.env({ ROLE: "talks" });
      const failing = box.json(["start", engine, "--", ...args], { env: { ROLE: "fails" } });
      await until("our agent lives", () => existsSync(join(box.root, "waits")));
      const outside = spawn(join(box.bin, engine), args, {
        cwd: box.cwd,
        env,
        stdio: ["ignore", "pipe", "pipe"],
      });
      const over = collect(outside);
      const failed = await failing;
      writeFileSync(flag("over"), "");
      await over;
      expect(failed["session"].value).toBeNull();
      expect(failed["diagnostics"].join()).toContain("was also running here outside of Reprise");
    },
  );
});

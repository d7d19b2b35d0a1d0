import { describe, expect, test } from "vitest";
import { Fault } from "../core/faults.ts";
import { codex } from "./codex.ts";
import type { AttemptRequest } from "./engine.ts";
import { keepNative } from "./attempt-options.ts";
import { fakeFiles } from "../../test/session-files.ts";

const ID = "01a1dd0a-a544-73b2-b8f5-4b79ca6d17f0";
const PARENT = "01a1dd0a-1111-7000-8000-000000000001";

const ask = (part: Partial<AttemptRequest> & { line?: string; over?: string }): AttemptRequest => ({
  kind: "start",
  interactive: false,
  message: "go",
  session: null,
  forkTo: null,
  given: split(part.line),
  givenHasNoPrompt: true,
  native: split(part.over),
  cwd: "/home/user/lab",
  tag: "1a2b3c4d-1",
  trustCwd: false,
  ...part,
});

const resume = (line: string, part: Partial<AttemptRequest> & { over?: string } = {}) =>
  ask({ kind: "resume", session: ID, line, ...part });

describe("start with a message", () => {
  const cases: Record<string, string> = {
    "": "exec --json -",
    "-m x": "exec --json -m x -",
    "exec -m x": "exec --json -m x -",
    "e -m x": "exec --json -m x -",
    "-m x exec": "exec --json -m x -",
    "-m x exec -c a=1 -c b=2": "exec --json -m x -c a=1 -c b=2 -",
    "exec --json": "exec --json -",
    "--json -m x": "exec --json -m x -",
    "--sandbox=read-only": "exec --json --sandbox=read-only -",
    "-mx": "exec --json -mx -",
    "-m default -m own": "exec --json -m own -",
    "-a never exec -m x": "-a never exec --json -m x -",
    "--search": "--search exec --json -",
    "--new v": "exec --json --new v -",
    "--new v exec": "--new v exec --json -",
    "exec --new=1 --newer": "exec --json --new=1 --newer -- -",
    "-i a.png b.png": "exec --json -i a.png b.png -- -",
    "-i a.png -m x": "exec --json -i a.png -m x -",
    "--skip-git-repo-check --add-dir d --add-dir e":
      "exec --json --skip-git-repo-check --add-dir d --add-dir e -",
    "-o out.txt --output-schema s.json --color never":
      "exec --json -o out.txt --output-schema s.json --color never -",
    "fix it": "usage",
    "exec fix": "usage",
    "-- -x": "usage",
    "exec resume": "usage",
    review: "usage",
    "-m": "usage",
    "-m --json": "usage",
  };
  test.each(Object.entries(cases))("%s", (line, then) => {
    expect(argsOf(ask({ line }))).toBe(then);
  });

  test("gives the message on stdin and knows what to expect", () => {
    expect(codex.command(ask({ line: "-m x", message: "- item" }))).toEqual({
      args: ["exec", "--json", "-m", "x", "-"],
      stdin: "- item",
      env: {},
      headless: true,
      structured: true,
      expects: null,
      options: { kept: ["-m x"], dropped: [], rewritten: [] },
    });
  });

  test("trusts the folder only on request", () => {
    expect(argsOf(ask({ trustCwd: true }))).toBe("exec --json --skip-git-repo-check -");
    expect(argsOf(ask({ trustCwd: true, line: "--skip-git-repo-check" }))).toBe(
      "exec --json --skip-git-repo-check -",
    );
  });

  test.each(["-s workspace-write", '-c sandbox_mode="danger-full-access"', "--yolo", "--approve-for-me"])(
    "warns that %s makes codex trust the folder",
    (line) => {
      expect(codex.command(ask({ line })).warnings).toEqual([expect.stringContaining("--trust-cwd")]);
      expect(codex.command(ask({ line, trustCwd: true })).warnings).toBeUndefined();
    },
  );

  test.each(["-s read-only", "--add-dir d", "-c model=x"])("does not warn about %s", (line) => {
    expect(codex.command(ask({ line })).warnings).toBeUndefined();
  });

  test("says when nothing will be saved", () => {
    expect(codex.command(ask({ line: "--ephemeral" })).ephemeral).toMatch(/--ephemeral/);
  });

  test.each([
    ["", "--no-daemon"],
    ["-m x -s read-only", "--no-daemon -m x -s read-only"],
    ["resume --last", "--no-daemon resume --last"],
    ["--no-daemon -m x", "--no-daemon -m x"],
    ["--remote ws://127.0.0.1:1", "--remote ws://127.0.0.1:1"],
  ])("starts no background server from the UI of %j, which would keep the thread locked", (line, then) => {
    expect(argsOf(ask({ interactive: true, line, message: null }))).toBe(then);
  });

  test("passes the message as a separate word in the UI", () => {
    expect(argsOf(ask({ interactive: true, line: "-m x", message: "-go" }))).toBe("--no-daemon -m x -- -go");
  });

  test("leaves out options that continued another conversation on a fresh start", () => {
    expect(
      argsOf(ask({ kind: "fresh", line: "exec resume --last -m x old prompt", givenHasNoPrompt: false })),
    ).toBe("exec --json -m x -");
  });
});

describe("start without a message", () => {
  const cases: Record<string, [ui: boolean, structured: boolean]> = {
    "": [true, false],
    "-m x": [true, false],
    "fix the test": [true, false],
    "resume --last": [true, false],
    fork: [true, false],
    "--help": [false, false],
    "exec hi": [false, false],
    "exec --json hi": [false, true],
    "-m x exec --json fix it -c a=1": [false, true],
    "--new exec --json": [false, true],
    "exec resume --json --last hi": [false, true],
    "review --uncommitted": [false, false],
    "login status": [false, false],
  };
  test.each(Object.entries(cases))("%s", (line, [ui, structured]) => {
    const command = codex.command(ask({ line, message: null, givenHasNoPrompt: false }));
    expect([command.args, command.headless, command.structured, command.stdin]).toEqual([
      split(line),
      !ui,
      structured,
      null,
    ]);
    expect(codex.opensUi(split(line))).toBe(ui);
  });

  const named: Record<string, string | null> = {
    [`resume ${ID}`]: ID,
    [`resume -m x ${ID} hi there`]: ID,
    [`exec resume --json ${ID} hi`]: ID,
    [`-m x exec -s read-only resume ${ID.toUpperCase()} hi`]: ID,
    [`exec resume -- ${ID}`]: ID,
    [`exec resume --last ${ID}`]: null,
    "exec resume my-thread hi": null,
    resume: null,
    [`fork ${ID}`]: null,
    [`exec fork ${ID} hi`]: null,
    [`exec ${ID}`]: null,
    [`archive ${ID}`]: null,
  };
  test.each(Object.entries(named))("%s: the session that is named", (line, expects) => {
    expect(codex.command(ask({ line, message: null, givenHasNoPrompt: false })).expects).toBe(expects);
  });
});

describe("resume", () => {
  const cases: Record<string, string> = {
    "": `exec resume --json ${ID} -`,
    "-m x": `exec resume --json -m x ${ID} -`,
    "exec --json -m x hello": `exec resume --json -m x ${ID} -`,
    "exec --json hello -m x": `exec resume --json -m x ${ID} -`,
    "exec --json fix the flaky test": `exec resume --json ${ID} -`,
    "-m x exec -s workspace-write hello": `exec -s workspace-write resume --json -m x ${ID} -`,
    "-s read-only -C dir --add-dir a --add-dir b -p prof -m x -c k=1": `exec -s read-only -C dir --add-dir a --add-dir b -p prof resume --json -m x -c k=1 ${ID} -`,
    "--color never --oss --local-provider ollama": `exec --color never --oss --local-provider ollama resume --json ${ID} -`,
    "-a never --search exec -m x": `-a never --search exec resume --json -m x ${ID} -`,
    "--yolo": `exec resume --json --yolo ${ID} -`,
    "--approve-for-me": `exec --approve-for-me resume --json ${ID} -`,
    "-i a.png b.png": `exec resume --json ${ID} -`,
    "-i a.png -- prompt": `exec resume --json ${ID} -`,
    "--new v": `exec resume --json --new -- ${ID} -`,
    "--new v prompt": `exec resume --json --new v ${ID} -`,
    "--one exec --two=2 -m x": `--one exec resume --json --two=2 -m x ${ID} -`,
    "-m a -m b": `exec resume --json -m b ${ID} -`,
    "-c a=1 -c a=2": `exec resume --json -c a=1 -c a=2 ${ID} -`,
    "exec resume --last go on": `exec resume --json ${ID} -`,
    "exec resume 01a1dd0a-0000-7000-8000-000000000000 go": `exec resume --json ${ID} -`,
    "resume --all --include-non-interactive": `exec resume --json ${ID} -`,
    "--no-alt-screen --no-daemon -m x": `exec resume --json -m x ${ID} -`,
    "exec review --base main -m x": `exec resume --json -m x ${ID} -`,
    "-o out --output-schema s --skip-git-repo-check": `exec resume --json -o out --output-schema s --skip-git-repo-check ${ID} -`,
    "--sandbox=workspace-write -mx": `exec --sandbox=workspace-write resume --json -mx ${ID} -`,
    "--thread-source x --enable f --disable g": `exec resume --json --enable f --disable g ${ID} -`,
    "--ephemeral": "option_unkept",
    "--worktree": "option_unkept",
    "-m": "option_unkept",
    "--remote ws://host": "option_unkept",
  };
  test.each(Object.entries(cases))("%s", (line, then) => {
    expect(argsOf(resume(line, { givenHasNoPrompt: false }))).toBe(then);
  });

  test("renders the same options every time", () => {
    const given = split("-a never exec -m x --json --add-dir d -c k=1 hi --new v -s read-only");
    const attempts = [1, 2, 3].map(() =>
      codex.command(ask({ kind: "resume", session: ID, given, givenHasNoPrompt: false })),
    );
    expect(new Set(attempts.map((command) => JSON.stringify(command))).size).toBe(1);
    expect(attempts[2]?.args).toEqual(
      split(`-a never exec --add-dir d -s read-only resume --json -m x -c k=1 --new v ${ID} -`),
    );
  });

  test("reports the fate of each option", () => {
    const { options, expects, stdin } = codex.command(
      resume("exec --json -m x old prompt", { givenHasNoPrompt: false }),
    );
    expect({ options, expects, stdin }).toEqual({
      options: { kept: ["-m x"], dropped: ["--json", '"old"', '"prompt"'], rewritten: [] },
      expects: ID,
      stdin: "go",
    });
  });

  test("keeps the conversation's sandbox where no option sets one (I12)", () => {
    const rights = ["-s", "read-only"];
    const { args, options } = codex.command(resume("-m x", { rights }));
    expect(args.join(" ")).toBe(`exec -s read-only resume --json -m x ${ID} -`);
    expect(options).toEqual({
      kept: ["-m x"],
      dropped: [],
      rewritten: ["no sandbox option → -s read-only, as the conversation began"],
    });
    expect(argsOf(resume("-s workspace-write", { rights }))).toBe(
      `exec -s workspace-write resume --json ${ID} -`,
    );
    expect(argsOf(resume('-c sandbox_mode="workspace-write"', { rights }))).toBe(
      `exec resume --json -c sandbox_mode="workspace-write" ${ID} -`,
    );
    expect(argsOf(resume("--yolo", { rights }))).toBe(`exec resume --json --yolo ${ID} -`);
    expect(argsOf(resume("", { rights: ["-s", "workspace-write"], over: "-s read-only" }))).toBe(
      `exec -s read-only resume --json ${ID} -`,
    );
  });

  test("keeps the conversation's network and folders whatever the config says today (I12)", () => {
    const closed = "sandbox_workspace_write.network_access=false";
    const rights = ["-s", "workspace-write", "-c", closed];
    const { args, options } = codex.command(resume("-s workspace-write", { rights }));
    expect(args.join(" ")).toBe(`exec -s workspace-write resume --json -c ${closed} ${ID} -`);
    expect(options).toEqual({
      kept: ["-s workspace-write"],
      dropped: [],
      rewritten: [`today's config → -c ${closed}, as the conversation began`],
    });
    expect(argsOf(resume("", { rights }))).toBe(`exec -s workspace-write resume --json -c ${closed} ${ID} -`);
  });

  test("limits a new conversation in an old run to the rights of the run (I12)", () => {
    const closed = "sandbox_workspace_write.network_access=false";
    const rights = ["-s", "workspace-write", "-c", closed];
    const fresh = { kind: "fresh", rights } as const;
    expect(argsOf(ask(fresh))).toBe(`exec --json -s workspace-write -c ${closed} -`);
    expect(argsOf(ask({ ...fresh, given: split("-s read-only") }))).toBe(
      `exec --json -s read-only -c ${closed} -`,
    );
    expect(argsOf(ask({ ...fresh, native: split("-s read-only") }))).toBe(
      `exec --json -s read-only -c ${closed} -`,
    );
    expect(argsOf(ask({ ...fresh, native: split("-s workspace-write") }))).toBe("would_widen");
    const ui = { ...fresh, interactive: true, message: null, givenHasNoPrompt: false };
    expect(argsOf(ask({ ...ui, given: split("resume --last") }))).toBe(
      `--no-daemon -s workspace-write -c ${closed}`,
    );
    expect(argsOf(ask({ kind: "fresh" }))).toBe("exec --json -");
  });

  describe("keeps the conversation's permission profile, not today's of that name (I12)", () => {
    const rules = 'permissions.reprise-held-p.filesystem={":root"="read","/keys"="deny"}';
    const rights = ["-c", rules, "-c", 'default_permissions="reprise-held-p"'];
    const held = `-c ${rules} -c default_permissions="reprise-held-p"`;

    test("without a sandbox, which would disable it", () => {
      const { args, options } = codex.command(resume('-c default_permissions="p"', { rights }));
      expect(args.join(" ")).toBe(`exec resume --json -c default_permissions="p" ${held} ${ID} -`);
      expect(options.rewritten).toEqual(["permission profile p → its rules as the conversation began"]);
      expect(argsOf(resume("", { rights, kind: "fork" }))).toBe(`exec fork --json ${held} ${ID} -`);
      expect(argsOf(ask({ kind: "fresh", rights }))).toBe(`exec --json ${held} -`);
    });

    test("under a name that no config file can know, so that Codex merges no rules into it", () => {
      const nonce = "0123456789abcdef".repeat(2);
      const named = `reprise-held-${nonce}-p`;
      expect(argsOf(resume("", { rights, nonce }))).toBe(
        `exec resume --json ${held.replaceAll("reprise-held-p", named)} ${ID} -`,
      );
      const { options } = codex.command(resume("", { rights, nonce }));
      expect(options.rewritten).toEqual(["permission profile p → its rules as the conversation began"]);
    });

    test.each(["-s read-only", "-c sandbox_mode=read-only"])("and refuses %s beside it", (over) => {
      expect(argsOf(resume("", { rights, over }))).toBe("would_widen");
      expect(argsOf(ask({ kind: "fresh", rights, native: split(over) }))).toBe("would_widen");
      expect(argsOf(resume(over, { rights }))).toBe("would_widen");
    });

    test("and refuses unknown rules, whatever sandbox is requested", () => {
      const named = { rights: ["-c", 'default_permissions="p"'] };
      expect(argsOf(resume("", named))).toBe("option_unkept");
      expect(argsOf(resume("", { ...named, over: "-s read-only" }))).toBe("would_widen");
    });
  });

  test("refuses an unknown sandbox of the conversation, unless an option sets one (I12)", () => {
    const unknown = { rightsUnknown: "its file shows no turn's context" };
    expect(() => codex.command(resume("-m x", unknown))).toThrow(
      expect.objectContaining({
        code: "option_unkept",
        facts: { option: "-s" },
        message: expect.stringMatching(/shows no turn's context.*--native -s --native read-only/),
      }) as Error,
    );
    expect(argsOf(resume("", { ...unknown, kind: "fork" }))).toBe("option_unkept");
    expect(argsOf(resume("-s workspace-write", unknown))).toBe(
      `exec -s workspace-write resume --json ${ID} -`,
    );
    expect(argsOf(resume("", { ...unknown, over: "-s read-only" }))).toBe(
      `exec -s read-only resume --json ${ID} -`,
    );
    expect(argsOf(resume("", { ...unknown, over: "-s workspace-write" }))).toBe("would_widen");
    expect(argsOf(ask({ kind: "fresh", ...unknown }))).toBe("option_unkept");
  });

  test("opens the UI", () => {
    const ui = { interactive: true, message: null };
    expect(argsOf(resume("-m x -a never -s read-only --color never", ui))).toBe(
      `resume -a never -s read-only -m x --no-daemon ${ID}`,
    );
    expect(argsOf(resume("--no-daemon", { ...ui, message: "-x" }))).toBe(`resume --no-daemon ${ID} -- -x`);
    expect(argsOf(resume("--ignore-rules", ui))).toBe("option_unkept");
    expect(argsOf(resume("-o out.txt --skip-git-repo-check", ui))).toBe(`resume --no-daemon ${ID}`);
  });

  test("makes a fork", () => {
    const fork = ask({ kind: "fork", session: ID, line: "-s read-only -m x" });
    expect(argsOf(fork)).toBe(`exec -s read-only fork --json -m x ${ID} -`);
    expect(codex.command(fork).expects).toBeNull();
    expect(argsOf({ ...fork, interactive: true, message: null })).toBe(
      `fork -s read-only -m x --no-daemon ${ID}`,
    );
    expect(argsOf({ ...fork, interactive: true, message: "-x" })).toBe(
      `fork -s read-only -m x --no-daemon ${ID} -- -x`,
    );
  });

  test.each(["", "latest", "thread name", `${ID}\r`, ` ${ID}`, ID.slice(0, 8), ID.toUpperCase(), `-${ID}`])(
    "refuses %j, for which codex would start a new conversation",
    (session) => {
      expect(argsOf(ask({ kind: "resume", session }))).toBe("session_unknown");
    },
  );
});

describe("options of one attempt", () => {
  const cases: Record<string, [given: string, native: string, then: string]> = {
    "another model": ["-m x", "-m y", `exec resume --json -m y ${ID} -`],
    "an image for this turn": ["-i old.png", "-i new.png", `exec resume --json -i new.png -- ${ID} -`],
    "a narrower sandbox": ["-s workspace-write", "-s read-only", `exec -s read-only resume --json ${ID} -`],
    "a narrower sandbox than all": [
      "--yolo -m x",
      "-s workspace-write",
      `exec -s workspace-write resume --json -m x ${ID} -`,
    ],
    "a narrower sandbox as a setting": [
      "-s workspace-write",
      '-c sandbox_mode="read-only"',
      `exec resume --json -c sandbox_mode="read-only" ${ID} -`,
    ],
    "the same sandbox": [
      "-s workspace-write",
      "-s workspace-write",
      `exec -s workspace-write resume --json ${ID} -`,
    ],
    "a wider sandbox": ["-s read-only", "-s workspace-write", "would_widen"],
    "a wider sandbox as a setting": ["-s read-only", "-c sandbox_mode=danger-full-access", "would_widen"],
    "no sandbox at all": ["-s danger-full-access", "--yolo", "would_widen"],
    "a sandbox where none was named": ["", "-s workspace-write", "would_widen"],
    "automatic approval": ["-s workspace-write", "--approve-for-me", "would_widen"],
    "another directory": ["--add-dir a", "--add-dir b", "would_widen"],
    "another root": ["", "-C /", "would_widen"],
    "a setting that may widen": ["", "-c sandbox_workspace_write.network_access=true", "would_widen"],
    "a harmless setting": [
      "",
      "-c model_reasoning_effort=high",
      `exec resume --json -c model_reasoning_effort=high ${ID} -`,
    ],
    "another profile": ["-p a", "-p b", "would_widen"],
    "a feature": ["", "--enable x", "would_widen"],
    "a file outside the sandbox": ["", "-o /etc/x", "would_widen"],
    "another file outside the sandbox": ["-o a", "-o b", "would_widen"],
    "the same file": ["-o a", "-o a", `exec resume --json -o a ${ID} -`],
    "trust in the folder": ["", "--skip-git-repo-check", "would_widen"],
    "something unknown": ["", "--new", "would_widen"],
    "a session": ["", "--last", "usage"],
    "a word": ["", "hello", "usage"],
  };
  test.each(Object.entries(cases))("%s", (_name, [line, over, then]) => {
    expect(argsOf(resume(line, { over, native: split(over) }))).toBe(then);
  });

  test("hold for the next resume when they are kept for the run", () => {
    const given = keepNative(codex, split("exec -m x hi"), split("-m y"), false);
    expect(given).toEqual(["exec", "-m", "y", "--", "hi"]);
    expect(argsOf(ask({ kind: "resume", session: ID, given, givenHasNoPrompt: false }))).toBe(
      `exec resume --json -m y ${ID} -`,
    );
  });
});

describe("home and version", () => {
  test("come from the environment", () => {
    expect(codex.home({ HOME: "/home/user" })).toBe("/home/user/.codex");
    expect(codex.home({ HOME: "/home/user", CODEX_HOME: "/x" })).toBe("/x");
    expect(codex.home({ CODEX_HOME: "" })).toBeNull();
    expect(codex.homeEnv("/x")).toEqual({ CODEX_HOME: "/x" });
    expect([codex.version("codex-cli 0.166.0\n"), codex.version("no")]).toEqual(["0.166.0", null]);
  });
});

describe("the session store", () => {
  const HOME = "/home/user/.codex";
  const rollout = (id: string, day = "2026/11/15") =>
    `${HOME}/sessions/${day}/rollout-2026-11-15T02-29-07-${id}.jsonl`;
  const meta = (payload: object) => `${JSON.stringify({ type: "session_meta", payload })}\n`;
  const user = `${JSON.stringify({ type: "event_msg", payload: { type: "item_completed", item: { type: "UserMessage", content: [{ text: " fix it\n" }] } } })}\n`;
  const locate = (files: Record<string, string>, id = ID) =>
    codex.locate(id, { home: HOME, cwd: "/elsewhere" }, fakeFiles(files));
  const present = (path: string) => ({
    state: "present",
    files: [{ path, restoreTo: path.slice(HOME.length + 1) }],
    cwd: "/w",
    updatedAtMs: 1000,
    rights: ["-s", "read-only"],
  });
  const context = (payload: object) => `${JSON.stringify({ type: "turn_context", payload })}\n`;
  const turn = (type: string) => context({ sandbox_policy: { type } });
  const at = (name: string) => ({ type: "path", path: name });
  const special = (kind: string) => ({ type: "special", value: { kind } });
  const profile = (rules: [path: object, access: string][], { id = "p", network = "restricted" } = {}) =>
    context({
      sandbox_policy: { type: "read-only" },
      active_permission_profile: { id },
      permission_profile: {
        type: "managed",
        network,
        file_system: {
          type: "restricted",
          glob_scan_max_depth: 3,
          entries: rules.map(([where, access]) => ({ path: where, access })),
        },
      },
    });
  const WRITES = "sandbox_workspace_write";
  const roots = (list: string) => ["-c", `${WRITES}.writable_roots=${list}`];

  // The id is from 2026-11-15 UTC; folders have local dates, and Codex reads any folder.
  test.each(["2026/11/14", "2026/11/15", "2026/11/16", "2020/01/01", "copied"])(
    "finds a session in %s",
    async (day) => {
      expect(
        await locate({ [rollout(ID, day)]: meta({ id: ID, cwd: "/w" }) + turn("read-only") + user }),
      ).toEqual(present(rollout(ID, day)));
    },
  );

  const long = `${JSON.stringify({ type: "response_item", payload: { text: `"turn_context" ${"x".repeat(300_000)}` } })}\n`;
  const began: Record<string, [lines: string, then: object]> = {
    "the first turn counts": [turn("read-only") + turn("workspace-write"), { rights: ["-s", "read-only"] }],
    "no sandbox at all": [turn("danger-full-access"), { rights: ["-s", "danger-full-access"] }],
    "behind a long message": [
      long + turn("workspace-write"),
      { rights: ["-s", "workspace-write", ...roots("[]")] },
    ],
    "no network, one more folder": [
      context({
        sandbox_policy: { type: "workspace-write", network_access: false, writable_roots: ["/a b", 7] },
      }),
      { rights: ["-s", "workspace-write", ...roots('["/a b"]'), "-c", `${WRITES}.network_access=false`] },
    ],
    "network, and less than usual": [
      context({
        sandbox_policy: { type: "workspace-write", network_access: true, exclude_slash_tmp: true },
      }),
      { rights: ["-s", "workspace-write", ...roots("[]"), "-c", `${WRITES}.exclude_slash_tmp=true`] },
    ],
    "a tool that prints such a line": [
      `${JSON.stringify({ type: "response_item", payload: { type: "turn_context" } })}\n${turn("read-only")}`,
      { rights: ["-s", "read-only"] },
    ],
    "a profile that comes with Codex": [
      context({ sandbox_policy: { type: "read-only" }, active_permission_profile: { id: ":read-only" } }),
      { rights: ["-s", "read-only"] },
    ],
    "a permission profile of the user's own": [
      profile([
        [at("/keys"), "deny"],
        [special("root"), "read"],
        [special("tmpdir"), "write"],
        [{ type: "glob_pattern", pattern: '/w/**/".env' }, "deny"],
      ]),
      {
        rights: [
          "-c",
          'permissions.reprise-held-p.filesystem={"/keys"="deny",":root"="read",":tmpdir"="write","/w/**/\\".env"="deny",glob_scan_max_depth=3}',
          "-c",
          'default_permissions="reprise-held-p"',
        ],
      },
    ],
    "a permission profile with an open network": [
      profile([[at("/w"), "write"]], { id: "a b.c", network: "enabled" }),
      {
        rights: [
          "-c",
          'permissions.reprise-held.filesystem={"/w"="write",glob_scan_max_depth=3}',
          "-c",
          "permissions.reprise-held.network={enabled=false}",
          "-c",
          'default_permissions="reprise-held"',
        ],
      },
    ],
    "a permission profile that an earlier attempt held": [
      profile([[at("/w"), "read"]], { id: "reprise-held-p" }),
      {
        rights: [
          "-c",
          'permissions.reprise-held-p.filesystem={"/w"="read",glob_scan_max_depth=3}',
          "-c",
          'default_permissions="reprise-held-p"',
        ],
      },
    ],
    "a permission profile that an earlier attempt held under another name": [
      profile([[at("/w"), "read"]], { id: `reprise-held-${"0f".repeat(16)}-p` }),
      {
        rights: [
          "-c",
          'permissions.reprise-held-p.filesystem={"/w"="read",glob_scan_max_depth=3}',
          "-c",
          'default_permissions="reprise-held-p"',
        ],
      },
    ],
    "a permission profile without a plain name that an earlier attempt held": [
      profile([[at("/w"), "read"]], { id: `reprise-held-${"0f".repeat(16)}` }),
      {
        rights: [
          "-c",
          'permissions.reprise-held.filesystem={"/w"="read",glob_scan_max_depth=3}',
          "-c",
          'default_permissions="reprise-held"',
        ],
      },
    ],
    "a permission profile with a rule of a newer version": [
      profile([[{ type: "special", value: { kind: "root", below: "x" } }, "read"]]),
      { rights: ["-c", 'default_permissions="p"'] },
    ],
    "a permission profile with two rules for one path": [
      profile([
        [at("/w"), "read"],
        [at("/w"), "deny"],
      ]),
      { rights: ["-c", 'default_permissions="p"'] },
    ],
    "a permission profile without rules": [
      context({ sandbox_policy: { type: "read-only" }, active_permission_profile: { id: "p" } }),
      { rights: ["-c", 'default_permissions="p"'] },
    ],
    "no turn": [user, {}],
    "a turn beyond all bounds": [
      `${"x".repeat(8_388_608)}\n${turn("read-only")}`,
      { rightsUnknown: "its file shows no turn's context" },
    ],
    "a sandbox of a newer version": [
      turn("external-sandbox") + turn("read-only"),
      { rightsUnknown: 'its first turn names the sandbox "external-sandbox", which no option sets' },
    ],
    "a turn without a sandbox": [
      context({ cwd: "/w" }),
      { rightsUnknown: "its first turn names no sandbox, which no option sets" },
    ],
  };
  test.each(Object.entries(began))("the sandbox it began with: %s", async (_name, [lines, then]) => {
    const { rights: _rights, ...rest } = present(rollout(ID));
    expect(await locate({ [rollout(ID)]: meta({ id: ID, cwd: "/w" }) + lines + user })).toEqual({
      ...rest,
      ...then,
    });
  });

  const line = (type: string, payload: object) => `${JSON.stringify({ type, payload })}\n`;
  const item = (role: string, ...texts: string[]) =>
    line("response_item", {
      type: "message",
      role,
      content: texts.map((text) => ({ type: "input_text", text })),
    });
  const started = line("event_msg", { type: "task_started" });
  const instructions = item("developer", "<skills_instructions>");
  const surroundings = item("user", "# AGENTS.md instructions for /w\n", "<environment_context>");
  // What 0.166 writes, in its order; it may be killed behind any of these lines.
  const silent = [started, instructions, surroundings, line("world_state", {}), turn("read-only")];

  test.each([0, 1, 2, 3, 4, 5])(
    "a session whose engine was killed behind line %i of the first turn holds no message",
    async (count) => {
      const text = meta({ cwd: "/w" }) + silent.slice(0, count).join("");
      const torn = item("user", "Paint the shed green").slice(0, 60);
      for (const [path, whole] of [text, text + torn].entries())
        expect([path, await locate({ [rollout(ID)]: whole })]).toEqual([
          path,
          {
            state: "unusable",
            path: rollout(ID),
            why: "it holds no message: Codex was ended before it wrote down the first one",
            damaged: false,
            blank: true,
            ...(count === 5 ? { rights: ["-s", "read-only"] } : {}),
          },
        ]);
    },
  );

  test.each<[what: string, lines: string]>([
    ["the message as the model hears it", item("user", "Paint the shed green")],
    ["a message that looks like an element, by its event", item("user", "<b>Paint</b>") + user],
    [
      "a message of an older version",
      line("event_msg", { type: "user_message", message: "Paint the shed green" }),
    ],
    ["an answer", item("assistant", "<b>Done.</b>")],
    ["a tool call", line("response_item", { type: "function_call", name: "shell" })],
    ["a summary of the conversation", line("compacted", { message: "We painted." })],
    ["a context that is too long to be read", item("developer", "x".repeat(8_388_608))],
    ["a message behind a long context", item("developer", "x".repeat(300_000)) + user],
  ])("a session holds a message: %s", async (_what, lines) => {
    expect((await locate({ [rollout(ID)]: meta({ cwd: "/w" }) + silent.join("") + lines })).state).toBe(
      "present",
    );
  });

  test("a fork without a message holds the messages of its parent", async () => {
    const files = (said: string) => ({
      [rollout(ID)]: meta({ cwd: "/w", history_base: { thread_id: PARENT } }),
      [rollout(PARENT)]: meta({ cwd: "/w" }) + said,
    });
    expect([(await locate(files(user))).state, (await locate(files(""))).state]).toEqual([
      "present",
      "unusable",
    ]);
  });

  test("brings along the parents of a fork", async () => {
    const files = {
      [rollout(ID)]: meta({ cwd: "/w", history_base: { thread_id: PARENT } }),
      [rollout(PARENT)]: meta({ cwd: "/w" }) + user,
    };
    const found = await locate(files);
    expect(found.state === "present" && found.files.map(({ path }) => path)).toEqual([
      rollout(ID),
      rollout(PARENT),
    ]);
  });

  const archived = `${HOME}/archived_sessions/rollout-2026-11-15T02-29-07-${ID}.jsonl`;
  const unusable: Record<
    string,
    [files: Record<string, string>, path: string, why: RegExp, damaged: boolean]
  > = {
    archived: [{ [archived]: meta({}) }, archived, new RegExp(`codex unarchive ${ID}`), false],
    empty: [{ [rollout(ID)]: "" }, rollout(ID), /before it wrote the first line/, false],
    "torn first line": [
      { [rollout(ID)]: meta({}).slice(0, 20) },
      rollout(ID),
      /before it wrote the first line/,
      false,
    ],
    "bad first line": [{ [rollout(ID)]: `garbage\n${meta({})}` }, rollout(ID), /first line/, true],
    "another first line": [{ [rollout(ID)]: user }, rollout(ID), /first line/, true],
    "fork without its parent": [
      { [rollout(ID)]: meta({ history_base: { thread_id: PARENT } }) },
      rollout(ID),
      new RegExp(PARENT),
      true,
    ],
  };
  test.each(Object.entries(unusable))(
    "finds a session unusable: %s",
    async (_name, [files, path, why, damaged]) => {
      expect(await locate(files)).toEqual({
        state: "unusable",
        path,
        why: expect.stringMatching(why),
        damaged,
      });
    },
  );

  test("reports a missing session as absent, even beside a renamed copy", async () => {
    const gone = { state: "absent", searched: `${HOME}/sessions` };
    expect(await locate({})).toEqual(gone);
    expect(await locate({ [`${HOME}/sessions/2026/11/15/${ID}.jsonl`]: meta({}) })).toEqual(gone);
  });

  test("lists sessions of one directory or of all, newest first", async () => {
    const files = fakeFiles({
      [rollout(PARENT, "2026/11/14")]: meta({ cwd: "/w" }),
      [rollout(ID)]: meta({ cwd: "/w2" }) + user,
      [`${HOME}/sessions/2026/11/15/notes.txt`]: "x",
      [rollout("01a1dd0a-2222-7000-8000-000000000002")]: "broken",
    });
    const all = await codex.sessions({ home: HOME, cwd: null }, files);
    expect(all.map(({ id, cwd, title }) => [id, cwd, title])).toEqual([
      [ID, "/w2", "fix it"],
      [PARENT, "/w", null],
    ]);
    expect(all[0]?.createdAtMs).toBe(Number.parseInt("01a1dd0aa544", 16));
    expect((await codex.sessions({ home: HOME, cwd: "/w" }, files)).map(({ id }) => id)).toEqual([PARENT]);
  });
});

function split(line = ""): string[] {
  return line.split(" ").filter(Boolean);
}

function argsOf(wish: AttemptRequest): string {
  try {
    return codex.command(wish).args.join(" ");
  } catch (error) {
    if (error instanceof Fault) return error.code;
    throw error;
  }
}

describe("without --json", () => {
  const OWN = "01a1dd0a-a544-73b2-b8f5-4b79ca6d17f0";
  const FORGED = "0bad0bad-0bad-7bad-8bad-0bad0bad0bad";
  const header = (...lines: readonly string[]) => ["OpenAI Codex v0.166.0", "--------", ...lines, "--------"];
  const named = (stream: "stdout" | "stderr", lines: readonly string[]) => {
    const reader = codex.reader(() => 0, "text");
    const events = lines.flatMap((line) => reader.line(stream, line));
    return events.flatMap((event) => (event.type === "session" ? [event.session] : [event.type]));
  };
  const own = header("workdir: /w", `session id: ${OWN}`);
  const cases: Record<string, [lines: readonly string[], ids: readonly string[]]> = {
    "the header": [own, [OWN]],
    "words above it": [["Reading additional input from stdin...", "WARNING: x", ...own], [OWN]],
    "words below it": [[...own, "user", `session id: ${FORGED}`], [OWN]],
    "another header below it": [[...own, ...header(`session id: ${FORGED}`)], [OWN]],
    "no header": [["user", `session id: ${FORGED}`], []],
    "a header without an id": [[...header("workdir: /w"), `session id: ${FORGED}`], []],
    "a header with two ids": [header(`workdir: /w`, `session id: ${FORGED}`, `session id: ${OWN}`), []],
    "no rule below the title": [["OpenAI Codex v0.166.0", ...own.slice(2)], []],
    "a header that breaks off": [own.slice(0, 3), []],
    "no id": [header("session id: latest"), []],
  };
  test.each(Object.entries(cases))("%s", (_name, [lines, ids]) => {
    expect(named("stderr", lines)).toEqual(ids);
    expect(named("stdout", lines)).toEqual([]);
  });

  const failures: Record<string, [stderr: string, kind: string | undefined]> = {
    "its last line": [[...own, "ERROR: usage limit", "ERROR: usage limit"].join("\n"), "rate_limited"],
    "above the count of tokens": [
      [...own, "ERROR: usage limit", "tokens used", "0"].join("\n"),
      "rate_limited",
    ],
    "with JSON below it": [[...own, "ERROR: status 401 {", '  "a": 1', "}"].join("\n"), "auth"],
    "the model's words": [[...own, "codex", "ERROR: usage limit", "I looked."].join("\n"), undefined],
    "the user's words": [[...own, "user", "error: usage limit", "what is it?"].join("\n"), undefined],
    "before there was a turn": ["error: unexpected argument '-q' found\n\nUsage: codex exec\n", "usage"],
  };
  test.each(Object.entries(failures))("stderr explains a failure: %s", (_name, [stderr, kind]) => {
    const exit = { code: 1, signal: null };
    expect(codex.explainExit(exit, stderr, 0, "")?.kind).toBe(kind);
    expect(codex.explainExit({ code: 0, signal: null }, stderr, 0, "")).toBeNull();
  });
});

import { execFileSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Env } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, RightsVariable, RunRecord } from "../core/records.ts";
import { codex } from "../engines/codex.ts";
import type { Command } from "../engines/engine.ts";
import { ENGINES } from "../engines/engines.ts";
import {
  assertSameFolders,
  assertSameRights,
  EXCERPT_CHARACTERS,
  excerpt,
  hiddenVariables,
  recognition,
  recordedEnv,
  redactorFor,
  rightsVariables,
  storableArgs,
  withoutMark,
  withRightsFiles,
} from "./launch.ts";

const SECRET = `sk-proj-${"a1B2".repeat(12)}`;

/** Given → the arguments as stored, and the options marked as holding a secret. */
const CASES: Readonly<
  Record<string, readonly [given: readonly string[], stored: string[], redacted: string[]]>
> = {
  nothing: [["--model", "o3", "-v"], ["--model", "o3", "-v"], []],
  "a separate word": [["--model", SECRET], ["--model", "[redacted]"], ["--model"]],
  "behind an equals sign": [[`--model=${SECRET}`], ["--model=[redacted]"], ["--model"]],
  "right behind a short option": [[`-m${SECRET}`], ["-m[redacted]"], ["-m"]],
  "right behind a short option, with more": [[`-m${SECRET}=x`], ["-m[redacted]=x"], ["-m"]],
  "a password with @ in a URL": [
    ["--append-system-prompt", "https://u:p@canary@h/"],
    ["--append-system-prompt", "https://u:[redacted]@h/"],
    ["--append-system-prompt"],
  ],
  "short names of options": [
    ["--dsn", "canary", "--pwd", "canary", "--env", "DSN=canary"],
    ["--dsn", "[redacted]", "--pwd", "[redacted]", "--env", "DSN=[redacted]"],
    ["--dsn", "--pwd", "--env"],
  ],
  "a secret that begins with dashes": [
    ["--password", "--canary1X", "--password", "--model"],
    ["--password", "[redacted]", "--password", "--model"],
    ["--password"],
  ],
  "an option with a secret's name": [["--api-key", "hunter2x"], ["--api-key", "[redacted]"], ["--api-key"]],
};

describe("arguments are stored without secrets", () => {
  test.each(Object.entries(CASES))("%s", (_, [given, args, redacted]) => {
    expect(storableArgs(given, redactorFor({}, []))).toEqual({ args, redacted });
  });

  // `opencode run --help` 1.18.33: -p is --password.
  test.each<[given: string, stored: string, redacted: string[]]>([
    ["run -p hunter22 -u me", "run -p [redacted] -u me", ["-p"]],
    ["run -p=hunter22", "run -p=[redacted]", ["-p"]],
    ["run -phunter22", "run -p[redacted]", ["-p"]],
    ["run -phunter=22", "run -p[redacted]", ["-p"]],
    ["run -cphunter22", "run -cp[redacted]", ["-cp"]],
    ["run -cp hunter22", "run -cp [redacted]", ["-cp"]],
    ["run --p hunter22", "run --p [redacted]", ["--p"]],
    ["run --p=x", "run --p=[redacted]", ["--p"]],
    ["run --password x", "run --password [redacted]", ["--password"]],
    ["run -p --pure", "run -p --pure", []],
    ["run -- -p word", "run -- -p word", []],
  ])("by a short name of OpenCode's own option: %s", (given, stored, redacted) => {
    const engine = ENGINES.find(({ id }) => id === "opencode");
    const said = storableArgs(given.split(" "), redactorFor({}, []), engine);
    expect(said).toEqual({ args: stored.split(" "), redacted });
  });

  test.each(ENGINES.filter(({ id }) => id !== "opencode"))(
    "-p is a prompt or a profile of $id, and stays",
    (engine) => {
      expect(storableArgs(["-p", "fast"], redactorFor({}, []), engine).args).toEqual(["-p", "fast"]);
    },
  );
});

test("the excerpt of a message ends with … exactly where text is left out", () => {
  const short = (message: string) => excerpt(message, redactorFor({}, [])) ?? "";
  const whole = "w".repeat(EXCERPT_CHARACTERS);
  expect(short(whole)).toBe(whole);
  expect(short(`${whole}x`)).toBe(`${whole.slice(1)}…`);
  expect(withoutMark(short(`${whole}x`))).toBe(whole.slice(1));
  // A character is not cut in two.
  expect(short(`${"w".repeat(EXCERPT_CHARACTERS - 2)}👍👍`)).toBe(`${"w".repeat(EXCERPT_CHARACTERS - 2)} …`);
  expect(withoutMark("and so on…")).toBe("and so on…");
});

test("the password of a URL in a variable is a secret, and the variable is recorded as its holder", () => {
  const env = { DATABASE_URL: "postgres://app:hunter%402222@db.example.org/app", HOME: "/home/app" };
  expect(redactorFor(env, [])("log in as app with hunter@2222 at db.example.org")).toBe(
    "log in as app with [redacted:DATABASE_URL] at db.example.org",
  );
  const { hidden, hiddenSums } = hiddenVariables(env, [["CACHE_URL", "redis://:s0-long-a-word@h"]]);
  expect(hidden).toEqual(["CACHE_URL", "DATABASE_URL"]);
  expect(Object.entries(hiddenSums)).toEqual(
    hidden.map((name) => [name, expect.stringMatching(/^[0-9a-f]{4}$/)]),
  );
});

/** The value of today → whether `logs --redacted` refuses, and whether the search leaves the copy out. */
test.for<[today: string | undefined, unknown: boolean, unproven: boolean, recorded?: "earlier"]>([
  ["canary-of-the-run", false, false],
  [undefined, true, true],
  ["another-value-99", true, true],
  ["", false, true],
  ["canary-of-the-run", false, true, "earlier"],
  ["another-value-99", false, true, "earlier"],
])("a variable that is %j today is unknown: %j, unproven: %j", ([today, unknown, unproven, recorded]) => {
  const { hidden, hiddenSums } = hiddenVariables({ MY_TOKEN: "canary-of-the-run" }, []);
  const attempt = { hidden, ...(recorded === undefined ? { hiddenSums } : {}) } as unknown as AttemptRecord;
  const run = { launch: { env: [] } } as unknown as RunRecord;
  const found = recognition(today === undefined ? {} : { MY_TOKEN: today }, run, [attempt]);
  expect(found).toMatchObject({
    unknown: unknown ? ["MY_TOKEN"] : [],
    unproven: unproven ? ["MY_TOKEN"] : [],
  });
});

/** What a resume with other variables meets; "" is nothing. `args` are those of its command. */
function met(id: string, env: readonly [start: Env, later: Env], words = "", more: Met = {}): string {
  const engine = ENGINES.find((one) => one.id === id);
  if (engine === undefined) throw new Error(id);
  const rights = more.rights ?? rightsVariables(engine, env[0]);
  const launch = { rights, ...(more.old === true ? {} : { guarded: true }) };
  const run = { handle: "1a2b3c4d", launch } as unknown as RunRecord;
  const later = { env: env[1], ...(more.allowed === true ? { allowEnv: true as const } : {}) };
  try {
    assertSameRights(engine, run, later);
    assertSameFolders(engine, run, { args: words.split(" ") } as unknown as Command, later);
    return "";
  } catch (error) {
    return error instanceof Fault ? error.code : String(error);
  }
}

interface Met {
  readonly allowed?: true;
  /** The run was recorded before unknown variables were. */
  readonly old?: true;
  readonly rights?: readonly RightsVariable[];
}

describe("a resume refuses a variable of the engine that changed since the start (I12)", () => {
  test.each([
    ["claude", "CLAUDE_RELAUNCH_SESSION_ADD_DIRS"],
    ["claude", "CLAUDE_BG_SESSION_PERMISSION_RULES"],
    ["claude", "CLAUDE_CODE_SESSION_KIND"],
    ["claude", "CLAUDE_BG_WORKSPACE_TRUSTED"],
    ["claude", "CLAUDE_CODE_REMOTE_MCP_CONFIG"],
    ["claude", "CLAUDE_ENV_FILE"],
    ["claude", "CLAUDE_CODE_OF_A_LATER_VERSION"],
    ["gemini", "GEMINI_CLI_IDE_SERVER_STDIO_COMMAND"],
    ["gemini", "GEMINI_SYSTEM_MD"],
    ["opencode", "OPENCODE_EXPERIMENTAL_WORKSPACES"],
    ["opencode", "OPENCODE_AUTH_CONTENT"],
    ["claude", "CLAUDE_CODE_CUSTOM_OAUTH_URL"],
    ["codex", "CODEX_BWRAP_SHA256"],
    ["iflow", "iflow_toolDiscoveryUrl"],
  ])("%s %s", (id, name) => {
    expect(met(id, [{}, { [name]: "1" }])).toBe("would_widen");
    expect(met(id, [{ [name]: "1" }, { [name]: "2" }])).toBe("would_widen");
    expect(met(id, [{ [name]: "1" }, {}])).toBe("would_widen");
    expect(met(id, [{ [name]: "1" }, { [name]: "1" }])).toBe("");
    expect(met(id, [{}, { [name]: "1" }], "", { allowed: true })).toBe("");
    expect(met(id, [{}, { [name]: "1" }], "", { old: true })).toBe("");
  });

  /** With a home of the engine that stays, HOME alone may move the places of its settings. */
  test.for<[id: string, start: Env, later: Env, then: string]>([
    ["opencode", { HOME: "/a" }, { HOME: "/b" }, "would_widen"],
    ["opencode", { HOME: "/a" }, {}, "would_widen"],
    ["opencode", { HOME: "/a", XDG_DATA_HOME: "/d" }, { HOME: "/b", XDG_DATA_HOME: "/d" }, "would_widen"],
    ["opencode", { HOME: "/a", XDG_CONFIG_HOME: "/c" }, { HOME: "/b", XDG_CONFIG_HOME: "/c" }, "would_widen"],
    ["opencode", { HOME: "/a" }, { HOME: "/a", XDG_DATA_HOME: "/d" }, ""],
    ["codex", { HOME: "/a", CODEX_HOME: "/c" }, { HOME: "/b", CODEX_HOME: "/c" }, ""],
    ["claude", { HOME: "/a", CLAUDE_CONFIG_DIR: "/c" }, { HOME: "/b", CLAUDE_CONFIG_DIR: "/c" }, ""],
    ["gemini", { HOME: "/a", GEMINI_CLI_HOME: "/c" }, { HOME: "/b", GEMINI_CLI_HOME: "/c" }, ""],
  ])("%s, from %j to %j", ([id, start, later, then]) => {
    expect(met(id, [start, later])).toBe(then);
    expect(met(id, [start, later], "", { allowed: true })).toBe(then);
    expect(met(id, [start, later], "", { rights: [] })).toBe("XDG_CONFIG_HOME" in start ? "would_widen" : "");
  });

  test("and --allow-env does not cover variables that are known to grant rights", () => {
    const set = { CLAUDE_CODE_EVEN_MORE_DANGEROUSLY_SKIP_PERMISSIONS: "1" };
    expect(met("claude", [{}, set], "", { allowed: true })).toBe("would_widen");
    expect(met("claude", [{}, set], "", { old: true })).toBe("would_widen");
  });

  // As `env` printed them in the shells of claude 2.1.325 and codex 0.166.0, and what editors and users set.
  test.each([
    [
      "claude",
      `CLAUDECODE CLAUDE_CODE_CHILD_SESSION CLAUDE_CODE_SESSION_ID CLAUDE_PID CLAUDE_EFFORT CLAUDE_CODE_MESSAGING_SOCKET
      CLAUDE_CODE_MESSAGING_TOKEN CLAUDE_CODE_SESSION_ATTENDED CLAUDE_CODE_ENTRYPOINT CLAUDE_CODE_EXECPATH AI_AGENT
      CLAUDE_CODE_SSE_PORT CLAUDE_CONFIG_DIR CLAUDE_CODE_OAUTH_TOKEN CLAUDE_API_KEY CLAUDE_CODE_MAX_OUTPUT_TOKENS
      CLAUDE_CODE_API_KEY_HELPER_TTL_MS CLAUDE_CODE_MAX_RETRIES ANTHROPIC_MODEL`,
    ],
    [
      "codex",
      `CODEX_HOME CODEX_VERSION CODEX_SESSION_ID CODEX_THREAD_ID CODEX_APPLY_PATCH_PRESERVE_LINE_ENDINGS CODEX_CI
      CODEX_TOOL_CALL_ID CODEX_MANAGED_BY_NPM CODEX_API_KEY CODEX_ACCESS_TOKEN`,
    ],
    [
      "gemini",
      "GEMINI_CLI GEMINI_API_KEY GEMINI_MODEL GEMINI_CLI_HOME GEMINI_CLI_IDE_SERVER_PORT GEMINI_CLI_IDE_AUTH_TOKEN",
    ],
    [
      "opencode",
      "OPENCODE OPENCODE_PID OPENCODE_CLIENT OPENCODE_API_KEY OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS",
    ],
    ["iflow", "IFLOW_API_KEY iflow_apiKey IFLOW_modelName"],
  ])("%s, but not those of shells, logins and models", (id, names) => {
    for (const name of names.split(/\s+/)) {
      expect([name, met(id, [{}, { [name]: "1" }]), met(id, [{ [name]: "1" }, {}])]).toEqual([name, "", ""]);
    }
  });
});

test("a resume of Codex refuses a TMPDIR that a link leads elsewhere since the start (I12)", () => {
  const root = mkdtempSync(join(tmpdir(), "reprise-tmpdir-"));
  try {
    const TMPDIR = join(root, "above", "tmp");
    mkdirSync(TMPDIR, { recursive: true });
    mkdirSync(join(root, "elsewhere", "tmp"), { recursive: true });
    const began = rightsVariables(codex, { TMPDIR });
    const later = (rights = began) =>
      met("codex", [{}, { TMPDIR }], "exec -s workspace-write resume x -", { rights });
    expect(later()).toBe("");
    renameSync(join(root, "above"), join(root, "moved"));
    expect(later()).toBe("");
    symlinkSync(join(root, "elsewhere"), join(root, "above"));
    expect(later()).toBe("would_widen");
    // Runs of earlier versions have only the name.
    expect(later(began.map(({ name, sha256 }) => ({ name, sha256 })))).toBe("");
  } finally {
    rmSync(root, { recursive: true });
  }
});

describe("a resume of Codex refuses another TMPDIR where its sandbox may write there (I12)", () => {
  const profile = "-c default_permissions=reprise-held -c permissions.reprise-held.filesystem=";
  const commands: Record<string, string> = {
    "exec -s workspace-write resume --json x -": "would_widen",
    "exec resume --json -c sandbox_mode=workspace-write x -": "would_widen",
    "exec resume --json x -": "would_widen",
    "app-server": "would_widen",
    [`exec resume ${profile}{":root"="read",":tmpdir"="write"} x -`]: "would_widen",
    [`exec resume ${profile}{":root"="read"} x -`]: "",
    "exec -s workspace-write resume -c sandbox_workspace_write.exclude_tmpdir_env_var=true x -": "",
    "exec -s read-only resume --json x -": "",
    "exec -s danger-full-access resume --json x -": "",
    "exec resume --yolo x -": "",
  };
  test.each(Object.entries(commands))("%s", (words, then) => {
    expect(met("codex", [{}, { TMPDIR: "/a" }], words)).toBe(then);
    expect(met("codex", [{ TMPDIR: "/b" }, { TMPDIR: "/a" }], words)).toBe(then);
    expect(met("codex", [{ TMPDIR: "/a" }, { TMPDIR: "/a" }], words)).toBe("");
    expect(met("codex", [{ TMPDIR: "/a" }, {}], words)).toBe("");
    expect(met("codex", [{}, { TMPDIR: "/a" }], words, { allowed: true })).toBe("");
    expect(met("claude", [{}, { TMPDIR: "/a" }], words)).toBe("");
  });
});

describe("a resume refuses a changed file that decides on rights (I12)", () => {
  let cwd: string;
  const put = (name: string, text: string) => writeFileSync(join(cwd, name), text);
  beforeEach(() => {
    cwd = mkdtempSync(join(tmpdir(), "reprise-files-"));
    mkdirSync(join(cwd, "more"));
    for (const name of ["a", "b"]) put(name, "one");
  });
  afterEach(() => rmSync(cwd, { recursive: true }));

  /** What a resume meets after the change; "" is nothing. */
  function after(
    id: string,
    words: string,
    change: () => void,
    more: { allowed?: true; env?: Env } = {},
  ): string {
    const engine = ENGINES.find((one) => one.id === id);
    if (engine === undefined) throw new Error(id);
    const begun = {
      handle: "1a2b3c4d",
      cwd,
      launch: { message: "hello", rights: [] },
    } as unknown as RunRecord;
    const run = withRightsFiles(engine, begun, words.split(" "), { HOME: cwd, ...more.env });
    change();
    try {
      assertSameRights(engine, run, { env: {}, ...(more.allowed === true ? { allowFiles: true } : {}) });
      return "";
    } catch (error) {
      return error instanceof Fault ? error.code : String(error);
    }
  }

  test.each<[id: string, words: string, change: () => void]>([
    ["gemini", "--policy a", () => put("a", "two")],
    ["gemini", "--policy=~/a", () => put("a", "two")],
    ["gemini", "--policy a --policy b", () => put("b", "two")],
    ["gemini", "--admin-policy=a,b", () => put("b", "two")],
    ["gemini", "--adminPolicy .", () => put("more/new", "one")],
    ["gemini", "--policy more", () => symlinkSync(join(cwd, "a"), join(cwd, "more", "link"))],
    ["gemini", "--policy later", () => put("later", "one")],
    ["claude", "--settings a", () => rmSync(join(cwd, "a"))],
    ["claude", '--mcp-config a {"x":1} b', () => put("b", "two")],
    ["claude", "--plugin-dir more --plugin-dir .", () => put("a", "two")],
  ])("%s %s", (id, words, change) => {
    expect(after(id, words, () => {})).toBe("");
    expect(after(id, words, change)).toBe("would_widen");
  });

  test.each<[what: string, plant: () => void]>([
    ["a file of more than 16 MiB", () => put("more/model.bin", "x".repeat((16 << 20) + 1))],
    ["a pipe", () => void execFileSync("mkfifo", [join(cwd, "more/pipe")])],
    ["a link to the folder itself", () => symlinkSync(".", join(cwd, "more/self"))],
    [
      "two links that lead to each other's folder",
      () => {
        for (const name of ["x", "y"]) mkdirSync(join(cwd, "more", name));
        symlinkSync("../y", join(cwd, "more/x/y"));
        symlinkSync("../x", join(cwd, "more/y/x"));
      },
    ],
    ["a link that leads nowhere", () => symlinkSync("loop", join(cwd, "more/loop"))],
    ["a folder that may not be read", () => mkdirSync(join(cwd, "more/closed"), { mode: 0 })],
    [
      "more than 1000 files",
      () => {
        for (let n = 0; n <= 1_000; n += 1) put(`more/${n}`, "");
      },
    ],
  ])("in a folder with %s", (_what, plant) => {
    put("more/hooks.json", "one");
    plant();
    const began = performance.now();
    expect(after("claude", "--plugin-dir more", () => {})).toBe("");
    expect(after("claude", "--plugin-dir more", () => put("more/hooks.json", "two"))).toBe("would_widen");
    expect(performance.now() - began).toBeLessThan(20_000);
  });

  test.each<[what: string, plant: () => void]>([
    [
      "a folder with too many entries",
      () => {
        for (let n = 0; n <= 10_000; n += 1) put(`more/${n}`, "");
      },
    ],
    [
      "a pipe",
      () => {
        rmSync(join(cwd, "more"), { recursive: true });
        execFileSync("mkfifo", [join(cwd, "more")]);
      },
    ],
    [
      "links that lead to each other",
      () => {
        rmSync(join(cwd, "more"), { recursive: true });
        symlinkSync("more", join(cwd, "more"));
      },
    ],
  ])(
    "even if it did not change, where it is %s, which cannot be compared",
    (_what, plant) => {
      plant();
      expect(after("claude", "--plugin-dir more", () => {})).toBe("would_widen");
      expect(after("claude", "--plugin-dir more", () => {}, { allowed: true })).toBe("");
    },
    60_000,
  );

  test.each([
    ["codex", "exec -C more"],
    ["codex", "exec --cd=more/sub"],
    ["codex", "exec --add-dir more"],
    ["opencode", "run --dir more"],
    ["claude", "--add-dir a more"],
    ["gemini", "--include-directories=a,more"],
    ["iflow", "--add-dir more"],
  ])("or a link in the place of a folder that %s opens: %s", (id, words) => {
    const swap = () => {
      mkdirSync(join(cwd, "other/sub"), { recursive: true });
      rmSync(join(cwd, "more"), { recursive: true });
      symlinkSync("other", join(cwd, "more"));
    };
    const back = () => rmSync(join(cwd, "more"));
    expect(after(id, words, () => {})).toBe("");
    expect(after(id, words, swap)).toBe("would_widen");
    back();
    mkdirSync(join(cwd, "more"));
    expect(after(id, words, swap, { allowed: true })).toBe("would_widen");
    // It was a link when the run began.
    expect(after(id, words, () => {})).toBe("");
  });

  test("but not a file that no option names, and not with --allow-files", () => {
    expect(after("gemini", "--policy a", () => put("b", "two"))).toBe("");
    expect(after("claude", "--append-system-prompt-file a", () => put("a", "two"))).toBe("");
    expect(after("gemini", "--policy a", () => put("a", "three"), { allowed: true })).toBe("");
  });

  test("including a file that a variable names, except for the line that OpenCode adds to it", () => {
    const env = { OPENCODE_CONFIG: join(cwd, "a") };
    put("a", '{"permission":{"bash":"deny"}}');
    const added = readFileSync(join(cwd, "a"), "utf8").replace(
      "{",
      '{\n  "$schema": "https://opencode.ai/config.json",',
    );
    expect(after("opencode", "", () => put("a", added), { env })).toBe("");
    expect(after("opencode", "", () => put("a", "{}"), { env })).toBe("would_widen");
  });
});

test("a refusal tells a supervised agent's user to change the supervisor's environment", () => {
  const run = {
    handle: "1a2b3c4d",
    launch: { env: [{ name: "MY_TOKEN", value: null }], rights: [], guarded: true },
  } as unknown as RunRecord;
  const engine = ENGINES.find(({ id }) => id === "gemini");
  if (engine === undefined) throw new Error("gemini");
  const said = expect.stringMatching(
    /`reprise daemon stop`, (?:set MY_TOKEN|unset GEMINI_SANDBOX), run `reprise daemon start`, then `reprise agent resume 1a2b3c4d`\.$/,
  );
  const env = { GEMINI_SANDBOX: "false" };
  const faults = [
    () => recordedEnv(run, {}, [], "agent"),
    () => assertSameRights(engine, run, { env, supervised: "agent" }),
  ].map((act) => {
    try {
      return act();
    } catch (error) {
      return error instanceof Fault ? error.message : error;
    }
  });
  expect(faults).toEqual([said, said]);
});

import { describe, expect, test } from "vitest";
import { type ConfigFile, mergeConfig, parseConfig, projectPowers } from "./config.ts";
import { Fault } from "./faults.ts";

const MB = 1024 * 1024;
const ENGINE = `
[engines.mine]
program = "mine"
start = ["run", "--json"]
resume = ["run", "--json", "--session={session}"]
session = { field = "session_id", format = "uuid" }
events = { session = "type=init", text = "type=say : text", done = "type=result" }
`;

const good: Record<string, [text: string, then: ConfigFile]> = {
  "an empty file": ["", {}],
  "comments, BOM and CRLF": ["\uFEFF# mine\r\nescrow = 8\r\n", { escrowLimitBytes: 8 * MB }],
  "escrow off": ['escrow = "off"', { escrowLimitBytes: 0 }],
  durations: [
    'idle_timeout = "1h30m"\ntool_timeout = "0"\ntimeout = "2d"',
    { idleTimeoutMs: 5_400_000, toolTimeoutMs: null, timeoutMs: 172_800_000 },
  ],
  "a known engine": [
    '[engines.codex]\nprogram = "/opt/codex"\nargs = ["-m", "o9"]\nenv = { A_B = "x" }\nhome = "/srv/codex"',
    {
      engines: {
        codex: { program: "/opt/codex", args: ["-m", "o9"], env: { A_B: "x" }, home: "/srv/codex" },
      },
    },
  ],
  "how to be notified": [
    '[notify]\ncommand = ["tell-me", "--now"]\nwebhook = "https://hooks.example/T0/x"',
    { notify: { command: ["tell-me", "--now"], webhook: "https://hooks.example/T0/x" } },
  ],
  "the access of a batch's agents": ['[issues]\naccess = "read"', { issues: { access: "read" } }],
  "a gate for issues": [
    '[issues.gate]\ncommands = [["npm", "test"], { run = ["make"], timeout = "90s" }]\ntimeout = "5m"\nattempts = 4',
    {
      issues: {
        gate: {
          commands: [
            { run: ["npm", "test"], timeoutMs: 300_000 },
            { run: ["make"], timeoutMs: 90_000 },
          ],
          attempts: 4,
        },
      },
    },
  ],
  "a gate with defaults": [
    '[issues.gate]\ncommands = [["make"]]',
    { issues: { gate: { commands: [{ run: ["make"], timeoutMs: 600_000 }], attempts: 3 } } },
  ],
  "prices of models": [
    '[prices."gpt-5.1"]\ninput = 1.25\ncached = 0.125\noutput = 10\n[prices.local]\ninput = 0\noutput = 0',
    {
      prices: { "gpt-5.1": { input: 1.25, cached: 0.125, output: 10 }, local: { input: 0, output: 0 } },
    },
  ],
  "a webhook of this machine": [
    '[notify]\nwebhook = "http://127.0.0.1:8080/x"',
    { notify: { webhook: "http://127.0.0.1:8080/x" } },
  ],
  "a dangerous variable in the user's own file": [
    '[engines.codex]\nenv = { PATH = "/bin" }',
    { engines: { codex: { env: { PATH: "/bin" } } } },
  ],
  "an engine of one's own": [
    ENGINE,
    {
      engines: {
        mine: {
          program: "mine",
          custom: {
            title: "mine",
            start: ["run", "--json"],
            resume: ["run", "--json", "--session={session}"],
            message: "stdin",
            session: {
              field: "session_id",
              format: /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/,
              choose: false,
            },
            events: {
              session: { when: [["type", "init"]] },
              text: { when: [["type", "say"]], take: "text" },
              done: { when: [["type", "result"]] },
            },
          },
        },
      },
    },
  ],
};

const without = (line: string): string => ENGINE.replace(new RegExp(`^${line} = .*\n`, "m"), "");
const withLine = (line: string): string =>
  ENGINE.replace(new RegExp(`^${line.split(" ")[0]} = .*$`, "m"), line);

const refused: Record<string, [text: string, message: string]> = {
  "a price of what has no model": [
    "[prices.unknown]\ninput = 1\noutput = 1",
    "c.toml: prices.unknown is no model: `reprise usage` shows it where the engine named none, and that has no price.",
  ],
  "prices that are no table": [
    "prices = 3",
    'c.toml: prices is a table: [prices."model"] with input = 1.25, cached = 0.125 and output = 10.',
  ],
  "a price without output": [
    '[prices."m"]\ninput = 1',
    "c.toml: prices.m.output is a number of US dollars per million tokens, such as 1.25.",
  ],
  "a price as text": [
    '[prices."m"]\ninput = "1"\noutput = 1',
    "c.toml: prices.m.input is a number of US dollars per million tokens, such as 1.25.",
  ],
  "a negative price": [
    '[prices."m"]\ninput = 1\ncached = -1\noutput = 1',
    "c.toml: prices.m.cached is a number of US dollars per million tokens, such as 1.25.",
  ],
  "a mistyped key of a price": [
    '[prices."m"]\ninput = 1\noutputs = 1',
    "c.toml: prices.m.outputs is unknown. Did you mean output?",
  ],
  "a mistyped key": ["idle_timout = 1", "c.toml: idle_timout is unknown. Did you mean idle_timeout?"],
  "a key like nothing": [
    "zzz = 1",
    "c.toml: zzz is unknown. Known here: escrow, idle_timeout, tool_timeout, timeout, engines, notify, issues, prices.",
  ],
  "a mistyped key of an engine": [
    '[engines.codex]\nprogramm = "x"',
    "c.toml: engines.codex.programm is unknown. Did you mean program?",
  ],
  "a mistyped engine": [
    '[engines.codx]\nprogram = "x"',
    "c.toml: engines.codx is not an engine of Reprise and does not define one: program, start, resume, session and events are missing. Did you mean engines.codex?",
  ],
  "bad TOML": [
    "escrow = 8\ntimeout",
    "c.toml, line 2, column 1: incomplete key-value: cannot find end of key.",
  ],
  "the same key twice": [
    "escrow = 8\nescrow = 9",
    "c.toml, line 2, column 1: trying to redefine an already defined table or value.",
  ],
  __proto__: [
    "[__proto__]\nx = 1",
    "c.toml, line 1, column 2: no key can be `constructor` or `__proto__`; choose another name.",
  ],
  "a reserved name of an engine": [
    "[engines.constructor]\nprogram = 1",
    "c.toml, line 1, column 2: no key can be `constructor` or `__proto__`; choose another name.",
  ],
  "an integer beyond 2^53": [
    "escrow = 9007199254740993",
    "c.toml, line 1, column 10: integer value cannot be represented losslessly.",
  ],
  nan: ["escrow = nan", 'c.toml: escrow is "off" or a whole number of megabytes, such as 256.'],
  inf: ["escrow = inf", 'c.toml: escrow is "off" or a whole number of megabytes, such as 256.'],
  "a negative size": ["escrow = -1", 'c.toml: escrow is "off" or a whole number of megabytes, such as 256.'],
  "a fraction": ["escrow = 1.5", 'c.toml: escrow is "off" or a whole number of megabytes, such as 256.'],
  "a duration as a number": [
    "timeout = 15",
    'c.toml: timeout is a duration in quotes, such as "15m" or "1h30m"; "0" means never.',
  ],
  "a date for a duration": [
    "timeout = 1979-05-27",
    'c.toml: timeout is a duration in quotes, such as "15m" or "1h30m"; "0" means never.',
  ],
  "an unknown level of access": [
    '[issues]\naccess = "all"',
    'c.toml: issues.access is one of "read", "edit", "full".',
  ],
  "a gate that is a text": [
    '[issues.gate]\ncommands = ["npm test"]',
    'c.toml: issues.gate.commands holds an entry that is not a command: commands = [["npm", "test"], { run = ["npm", "run", "lint"], timeout = "2m" }].',
  ],
  "a gate that may never end": [
    '[issues.gate]\ncommands = [["make"]]\ntimeout = "0"',
    'c.toml: issues.gate.timeout is a duration in quotes, such as "10m".',
  ],
  "a gate without attempts": [
    "[issues.gate]\ncommands = []\nattempts = 0",
    "c.toml: issues.gate.attempts is a whole number from 1 to 100.",
  ],
  "a mistyped key of a gate": [
    "[issues.gate]\ncommand = []",
    "c.toml: issues.gate.command is unknown. Did you mean commands?",
  ],
  "a mistyped key of notify": [
    '[notify]\nweb_hook = "x"',
    "c.toml: notify.web_hook is unknown. Did you mean webhook?",
  ],
  "notify that is not a table": [
    "notify = 3",
    'c.toml: notify is a table: [notify] with command = ["program", "argument"] or webhook = "https://…".',
  ],
  "a command as one text": [
    '[notify]\ncommand = "tell me"',
    'c.toml: notify.command is a list of texts: ["--flag", "value"].',
  ],
  "a command without a program": [
    "[notify]\ncommand = []",
    'c.toml: notify.command names no program: ["program", "argument"].',
  ],
  "a command somewhere below": [
    '[notify]\ncommand = ["./tell"]',
    "c.toml: notify.command begins with the name of a program on PATH or with an absolute path.",
  ],
  "a webhook that is not an address": [
    '[notify]\nwebhook = "x"',
    'c.toml: notify.webhook is not an address: "https://…".',
  ],
  "a webhook that everybody reads": [
    '[notify]\nwebhook = "http://hooks.example/x"',
    "c.toml: notify.webhook is an https address; http only to this machine.",
  ],
  "a webhook that only looks local": [
    '[notify]\nwebhook = "http://127.0.0.1.example/x"',
    "c.toml: notify.webhook is an https address; http only to this machine.",
  ],
  "a webhook that is a file": [
    '[notify]\nwebhook = "file:///etc/passwd"',
    "c.toml: notify.webhook is an https address; http only to this machine.",
  ],
  "a webhook with a password": [
    '[notify]\nwebhook = "https://a:b@hooks.example/x"',
    "c.toml: notify.webhook holds a user name or a password, which cannot be sent; use a secret path instead.",
  ],
  "engines that are not a table": ["engines = 3", "c.toml: engines is a table: [engines.<name>]."],
  "an engine that is not a table": [
    "[engines]\ncodex = 3",
    "c.toml: engines.codex is a table: [engines.codex].",
  ],
  "a bad engine name": [
    '[engines."../x"]\nprogram = "x"',
    "c.toml: engines.../x is not an engine name: lower-case letters, digits, _ and -, 32 at most.",
  ],
  "a relative program": [
    '[engines.codex]\nprogram = "./codex"',
    "c.toml: engines.codex.program is the name of a program on PATH or an absolute path.",
  ],
  "a relative home": ['[engines.codex]\nhome = "x"', "c.toml: engines.codex.home is an absolute path."],
  "args that are a text": [
    '[engines.codex]\nargs = "-m x"',
    'c.toml: engines.codex.args is a list of texts: ["--flag", "value"].',
  ],
  "a number among the args": [
    "[engines.codex]\nargs = [1]",
    'c.toml: engines.codex.args is a list of texts: ["--flag", "value"].',
  ],
  "a bad variable name": [
    '[engines.codex]\nenv = { "A-B" = "x" }',
    "c.toml: engines.codex.env.A-B is not a variable name.",
  ],
  "a variable that is not text": [
    "[engines.codex]\nenv = { A = 1 }",
    "c.toml: engines.codex.env.A is a text in quotes without a zero byte.",
  ],
  "a zero byte behind an escape": [
    '[engines.codex]\nprogram = "a\\u0000b"',
    "c.toml: engines.codex.program is a text in quotes, not empty and without a zero byte.",
  ],
  "a template for a built-in engine": [
    '[engines.codex]\nstart = ["x"]',
    "c.toml: engines.codex.start is unknown. Known here: program, args, env, home.",
  ],
  "a new engine without a program": [without("program"), "c.toml: engines.mine.program is missing."],
  "a new engine without resume": [
    without("resume"),
    "c.toml: engines.mine.resume is missing: a list of arguments.",
  ],
  "a resume that names no session": [
    withLine('resume = ["run"]'),
    "c.toml: engines.mine.resume must hold {session}.",
  ],
  "an unknown placeholder": [
    withLine('start = ["{prompt}"]'),
    "c.toml: engines.mine.start holds {prompt}; it may hold {options}.",
  ],
  "a message placeholder with stdin": [
    withLine('start = ["{message}"]'),
    "c.toml: engines.mine.start holds {message}; it may hold {options}.",
  ],
  "options inside a text": [
    withLine('start = ["-x{options}"]'),
    "c.toml: engines.mine.start holds {options} inside another text; it stands alone.",
  ],
  "a bad format": [
    withLine('session = { field = "id", format = "(" }'),
    'c.toml: engines.mine.session.format is "uuid" or a regular expression for the whole id.',
  ],
  "a chosen id that the format refuses": [
    withLine('session = { field = "id", format = "s-[0-9]+", choose = true }'),
    "c.toml: engines.mine.session.choose needs a format that accepts a UUID, since that is what Reprise chooses.",
  ],
  "a rule without a value": [
    withLine('events = { session = "type", done = "a=b" }'),
    'c.toml: engines.mine.events.session is a rule such as "type=message role=assistant : content".',
  ],
  "a session below the top": [
    withLine('events = { session = "part.type=init", done = "a=b" }'),
    "c.toml: engines.mine.events.session matches fields at the top of a line and takes none: session.field says which holds the id.",
  ],
  "no end of a turn": [
    withLine('events = { session = "type=init" }'),
    'c.toml: engines.mine.events.done is missing: events = { session = "type=init", text = "type=message : text", done = "type=result" }.',
  ],
  "a zero byte": ["escrow = 8\n\0", "c.toml contains a zero byte. Remove it."],
  "UTF-16": ["\uFFFD\uFFFDe\0s\0", "c.toml looks like UTF-16. Save it as UTF-8."],
  "UTF-16 without a mark": ["e\0s\0c\0", "c.toml looks like UTF-16. Save it as UTF-8."],
  "bytes that are not UTF-8": ["# \uFFFD", "c.toml is not valid UTF-8. Save it as UTF-8."],
  "more than a mebibyte": [
    `# ${"x".repeat(MB)}`,
    "c.toml is larger than 1 MiB, too large for a config file.",
  ],
};

describe("parseConfig", () => {
  test.each(Object.entries(good))("%s", (_name, [text, then]) => {
    expect(parseConfig(text, "c.toml", "user")).toEqual(then);
  });

  test.each(Object.entries(refused))("refuses %s", (_name, [text, message]) => {
    let fault: unknown;
    try {
      parseConfig(text, "c.toml", "user");
    } catch (error) {
      fault = error;
    }
    expect(fault).toBeInstanceOf(Fault);
    expect((fault as Fault).code).toBe("config_invalid");
    expect((fault as Fault).facts["file"]).toBe("c.toml");
    expect((fault as Fault).message).toBe(message);
  });

  test("refuses a project's file that chooses its user's notifications or their program", () => {
    expect(() => parseConfig('[notify]\ncommand = ["x"]', "reprise.toml", "project")).toThrow(
      "reprise.toml: notify is not allowed in a project's file. Set it in your own config file.",
    );
  });

  test.each(["PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "NODE_OPTIONS", "DYLD_INSERT_LIBRARIES"])(
    "refuses a project's file that sets %s",
    (name) => {
      const text = `[engines.codex]\nenv = { ${name} = "x" }`;
      expect(() => parseConfig(text, "reprise.toml", "project")).toThrow(
        `reprise.toml: engines.codex.env.${name} changes how every program runs, so a project's file may not set it; your own config may.`,
      );
    },
  );
});

describe("mergeConfig", () => {
  const parsed = (text: string): ConfigFile => parseConfig(text, "c.toml", "user");

  test("lets the project win key by key, and joins args and env", () => {
    const user = parsed(
      'escrow = "off"\ntimeout = "1h"\nidle_timeout = "5m"\n[engines.codex]\nprogram = "a"\nargs = ["-m", "x"]\nenv = { A = "1", B = "1" }',
    );
    const project = parsed(
      'timeout = "0"\n[engines.codex]\nargs = ["-s", "y"]\nenv = { B = "2" }\n[engines.demo]\nargs = []',
    );
    expect(mergeConfig(user, project)).toEqual({
      escrowLimitBytes: 0,
      timeoutMs: null,
      idleTimeoutMs: 300_000,
      engines: {
        codex: { program: "a", args: ["-m", "x", "-s", "y"], env: { A: "1", B: "2" } },
        demo: { args: [] },
      },
    });
  });

  test("replaces the user's limit by the project's", () => {
    expect(mergeConfig(parsed("escrow = 1"), parsed("escrow = 2")).escrowLimitBytes).toBe(2 * MB);
  });

  test("merges two empty configs into an empty one", () => {
    expect(mergeConfig({}, {})).toEqual({ escrowLimitBytes: 256 * MB, engines: {} });
  });
});

test("projectPowers lists the keys that decide on execution, and no others", () => {
  const text = `escrow = 1\ntimeout = "1h"\n[engines.codex]\nprogram = "x"\nargs = []\nenv = { A = "" }\nhome = "/x"\n[engines.demo]\n${ENGINE}`;
  expect(projectPowers(parseConfig(text, "reprise.toml", "project"))).toEqual([
    "engines.codex.program",
    "engines.codex.args",
    "engines.codex.env",
    "engines.codex.home",
    "engines.mine",
  ]);
  expect(projectPowers({})).toEqual([]);
});

/** Codex's trust in a folder: read from its config, preserved over a run's attempts, and reported before a start. */
import { describe, expect, test } from "vitest";
import { codex } from "./codex.ts";
import type { AttemptRequest } from "./engine.ts";

const ID = "01a1dd0a-a544-73b2-b8f5-4b79ca6d17f0";

const ask = (line: string, part: Partial<AttemptRequest>): AttemptRequest => ({
  kind: "start",
  interactive: false,
  message: "go",
  session: null,
  forkTo: null,
  given: line.split(" ").filter(Boolean),
  givenHasNoPrompt: true,
  native: [],
  cwd: "/home/user/lab",
  tag: "1a2b3c4d-1",
  trustCwd: false,
  ...part,
});

const argsOf = (wish: AttemptRequest) => codex.command(wish).args.join(" ");

const resume = (line: string, part: Partial<AttemptRequest>) =>
  ask(line, { kind: "resume", session: ID, ...part });

describe("trusts the folder no more than at the start of the run (I12):", () => {
  const pin = `-c projects={${["/home/user/lab", "/home/user", "/home", "/"].map((at) => `"${at}"={trust_level="untrusted"}`).join(",")}}`;
  const ro = ["-s", "read-only"];
  const writes = (...rules: string[]) => [
    ...["-c", `permissions.reprise-held.filesystem={${rules.join(",")}}`],
    ...["-c", 'default_permissions="reprise-held"'],
  ];
  const cases: Record<string, readonly [part: Partial<AttemptRequest>, line: string, held: boolean]> = {
    "not named, read-only": [{ folderTrust: "unset", rights: ro }, "", true],
    "not named, read-only by an option": [{ folderTrust: "unset" }, "-s read-only", true],
    "not trusted": [{ folderTrust: "untrusted", rights: ro }, "", true],
    "not trusted, writable": [{ folderTrust: "untrusted" }, "-s workspace-write", true],
    trusted: [{ folderTrust: "trusted", rights: ro }, "", false],
    "not named, which a writable sandbox made Codex trust": [
      { folderTrust: "unset", rights: ["-s", "workspace-write"] },
      "",
      false,
    ],
    "not named, writable at the start and narrowed since": [
      { folderTrust: "unset", rights: ["-s", "workspace-write"], native: ro },
      "-s workspace-write",
      false,
    ],
    "not named, writable by an option": [{ folderTrust: "unset" }, "--yolo", false],
    "not named, a profile that writes to it": [
      { folderTrust: "unset", rights: writes('":root"="read"', '"/home/user"="write"') },
      "",
      false,
    ],
    "not named, a profile that writes elsewhere": [
      { folderTrust: "unset", rights: writes('":root"="read"', '"/home/user/lab/sub"="write"') },
      "",
      true,
    ],
    "not named, a profile that writes around it": [
      { folderTrust: "unset", rights: writes('":root"="write"', '"/home/user/lab"="read"') },
      "",
      true,
    ],
    "--trust-cwd": [{ folderTrust: "unset", rights: ro, trustCwd: true }, "", false],
    "no sandbox known, where distrust would widen Codex's default": [{ folderTrust: "unset" }, "", false],
  };
  test.each(Object.entries(cases))("%s", (_name, [part, line, held]) => {
    expect(argsOf(resume(line, part)).includes(pin)).toBe(held);
    expect(argsOf(resume(line, { ...part, kind: "fork" })).includes(pin)).toBe(held);
    expect(argsOf(resume(line, { ...part, interactive: true, message: null })).includes(pin)).toBe(held);
    expect(argsOf(ask(line, { ...part, kind: "fresh" })).includes(pin)).toBe(held);
    expect(argsOf(ask(line, part)).includes(pin)).toBe(false);
  });

  const untrusted = (folder: string) => `"${folder}"={trust_level="untrusted"}`;
  const parents = ["/home/user", "/home", "/"].map(untrusted).join(",");

  test("the receipt says so, and other folders stay as the run itself names them", () => {
    const own = `-c projects={"/x"={trust_level="trusted"}}`;
    const { args, options } = codex.command(resume(own, { folderTrust: "unset", rights: ro }));
    const all = `projects={"/x"={trust_level="trusted"},${untrusted("/home/user/lab")},${parents}}`;
    expect(args.join(" ")).toBe(`exec -s read-only resume --json ${own} -c ${all} ${ID} -`);
    expect(options.kept).toEqual([own]);
    expect(options.rewritten).toContain("trust in the folder → none, as when the run was started");
  });

  const lab = "/home/user/lab";
  const spellings: Record<string, readonly [given: readonly string[], held: string | null]> = {
    "a later table": [["-c", "a=1", "-c", `projects={${untrusted("/x")}}`], `${untrusted("/x")},`],
    "with spaces": [["-c", ` projects = { ${untrusted("/x")} } # other`], `${untrusted("/x")},`],
    "joined to the letter": [[`-cprojects={${untrusted("/x")}}`], `${untrusted("/x")},`],
    "by the long name": [[`--config=projects={${untrusted("/x")}}`], `${untrusted("/x")},`],
    "dotted inside": [["-c", 'projects={"/x".trust_level="trusted"}'], '"/x"={trust_level="trusted"},'],
    "dotted outside": [["-c", 'projects./x.trust_level="trusted"'], '"/x"={trust_level="trusted"},'],
    "a table of one folder": [["-c", 'projects./x={trust_level="trusted"}'], '"/x"={trust_level="trusted"},'],
    "two tables": [
      ["-c", `projects={${untrusted("/y")}}`, "-c", `projects={${untrusted("/x")}}`],
      `${untrusted("/x")},`,
    ],
    "a table and more": [
      ["-c", `projects={${untrusted("/y")}}`, "-c", "projects./x.trust_level=untrusted"],
      `${untrusted("/y")},${untrusted("/x")},`,
    ],
    "quotes, which Codex takes as part of the name": [
      ["-c", `projects."${lab}".trust_level="trusted"`],
      String.raw`"\"/home/user/lab\""={trust_level="trusted"},`,
    ],
    "an empty table": [["-c", "projects={}"], ""],
    "the folder itself as trusted": [["-c", `projects={"${lab}"={trust_level="trusted"}}`], null],
    "the folder itself as trusted, and then all forgotten": [
      ["-c", `projects={"${lab}"={trust_level="trusted"}}`, "-c", "projects={}"],
      "",
    ],
  };
  test.each(Object.entries(spellings))("the run's own options name folders: %s", (_name, [given, held]) => {
    const part = { given, folderTrust: "unset", rights: ro } as const;
    for (const kind of ["resume", "fork", "fresh"] as const) {
      const { args } = codex.command({ ...resume("", part), kind });
      const last = args.filter((arg) => arg.includes("projects")).at(-1);
      const all = `projects={${held ?? ""}${untrusted(lab)},${parents}}`;
      expect(last).toBe(held === null ? given.at(-1) : all);
    }
  });

  test("by the folder's real name as well, where -C goes through a link", () => {
    const part = { folderTrust: "unset", rights: ro, folders: ["/real/lab", "/real/lab"] } as const;
    const line = argsOf(resume("-C link", part));
    expect(line).toContain(untrusted("/home/user/lab/link"));
    expect(line).toContain(untrusted("/real/lab"));
    expect(line).toContain(untrusted("/real"));
  });

  test("where an option kept Codex from trusting the main checkout of a worktree", () => {
    const line = `-s workspace-write -c projects={${untrusted("/repo")}}`;
    const part = { folderTrust: "unset", folders: ["/home/user/lab", "/home/user/lab", "/repo"] } as const;
    expect(argsOf(resume(line, part))).toContain(`-c projects={${untrusted("/repo")},${untrusted(lab)}`);
  });

  test.each([
    'projects={"/x"={trust_level="""trusted"""}}',
    'projects={"/x"={trust_level=[1.5]}}',
    `projects={${"a={".repeat(9_999)}`,
    "projects=x",
  ])("refuses options that cannot be read: %j", (value) => {
    const part = { given: ["-c", value], folderTrust: "unset", rights: ro } as const;
    expect(() => codex.command(resume("", part))).toThrow("which Reprise cannot read");
  });

  test("a server gets it as well", () => {
    const part = { folderTrust: "unset", rights: ro, dialogue: { approval: "never" } } as const;
    expect(argsOf(resume("", part))).toContain(`app-server ${pin}`);
  });
});

test.each([
  ["unset", true],
  ["trusted", false],
  ["untrusted", false],
] as const)(
  "the warning about a writable sandbox depends on the folder's trust: %s",
  (folderTrust, warns) => {
    const { warnings = [] } = codex.command(ask("-s workspace-write", { folderTrust }));
    expect(warnings.join("").includes("run outside the sandbox")).toBe(warns);
    expect(warnings.join("").includes(`-- -c 'projects={"/home/user/lab"={trust_level="untrusted"}}'`)).toBe(
      warns,
    );
  },
);

describe("says what a writable sandbox lets the repository do, and names an option that prevents it:", () => {
  const option = (...folders: string[]) =>
    `-c projects={${folders.map((folder) => `"${folder}"={trust_level="untrusted"}`).join(",")}}`;
  const worktree = ["/state/runs/1/worktree", "/repo"] as const;
  const cases: Record<
    string,
    readonly [line: string, folders: AttemptRequest["folders"], names: string | null]
  > = {
    "nothing, where an option names the folder": [option("/home/user/lab"), undefined, null],
    "nothing, where an option names the main checkout": [option("/repo"), worktree, null],
    "nothing, where an option names the worktree": [option(worktree[0]), worktree, null],
    "the main checkout of a worktree": ["", worktree, option("/repo")],
    "an option names another folder": [option("/x"), worktree, option("/x", "/repo")],
    "an option that Codex does not understand": [
      '-c projects."/repo".trust_level="untrusted"',
      worktree,
      "-c projects={",
    ],
    "an option that cannot be read": ["-c projects={[}", worktree, option("/repo")],
    "a folder without a repository": ["", ["/home/user/lab"], option("/home/user/lab")],
  };
  test.each(Object.entries(cases))("%s", (_name, [line, folders, names]) => {
    const part = { folderTrust: "unset", ...(folders === undefined ? {} : { folders }) } as const;
    const { warnings = [] } = codex.command(ask(`-s workspace-write ${line}`, part));
    expect(warnings.length).toBe(names === null ? 0 : 1);
    expect(warnings.join("").replaceAll("'", "")).toContain(names ?? "");
  });

  test("where native arguments alone start the agent", () => {
    const part = { message: null, givenHasNoPrompt: false, folderTrust: "unset" } as const;
    expect(codex.command(ask("exec -s workspace-write go", part)).warnings).toHaveLength(1);
    expect(codex.command(ask("exec -s read-only go", part)).warnings).toBeUndefined();
  });

  test("no option, where each run gets a new folder", () => {
    const part = { folderTrust: "unset", folders: ["/state/runs/1/work"], ownFolder: true } as const;
    const { warnings = [] } = codex.command(ask("-s workspace-write", part));
    expect(warnings.join("")).toContain("No option can prevent that beforehand");
    expect(warnings.join("")).not.toContain("projects");
  });

  test("a sandbox that is spelled in a way that Reprise does not know", () => {
    const part = { given: ["-c", 'sandbox_mode="""workspace-write"""'], folderTrust: "unset" } as const;
    expect(codex.command(ask("", part)).warnings).toHaveLength(1);
  });
});

describe("reads from config.toml whether a folder is trusted:", () => {
  const entry = (folder: string, level = "trusted") => `[projects.${folder}]\ntrust_level = "${level}"\n`;
  const cases: Record<string, readonly [text: string, folders: readonly string[], then: string]> = {
    "nothing named": [`model = "x"\n[a]\ntrust_level = "trusted"\n`, ["/r"], "unset"],
    "the folder": [entry('"/r"'), ["/r"], "trusted"],
    "the checkout itself": [entry("'/r'"), ["/r", "/r"], "trusted"],
    "the checkout above": [entry('"/r"'), ["/r/sub", "/r"], "trusted"],
    "the main checkout": [entry('"/r"'), ["/w", "/w", "/r"], "trusted"],
    "only a part of the checkout": [entry('"/r/sub"'), ["/r/sub", "/r"], "untrusted"],
    "a folder above the checkout": [entry('"/"'), ["/r/sub", "/r"], "unset"],
    "the folder is not": [entry('"/r/sub"', "untrusted") + entry('"/r"'), ["/r/sub", "/r"], "untrusted"],
    "not by the main checkout alone": [
      entry('"/w"', "untrusted") + entry('"/r"'),
      ["/w", "/w", "/r"],
      "untrusted",
    ],
    "a name with quotes and brackets": [entry(String.raw`"/r]\"x"`), ['/r]"x'], "trusted"],
    "with other tables around": [
      `[x]\na=1\n${entry('"/r"')}[y]\ntrust_level = "untrusted"\n`,
      ["/r"],
      "trusted",
    ],
  };
  test.each(Object.entries(cases))("%s", (_name, [text, [cwd = "", ...checkouts], then]) => {
    expect(codex.folderTrust?.in([text], [cwd, ...checkouts], [])).toBe(then);
  });

  const others: Record<string, readonly [texts: readonly string[], args: readonly string[], then: string]> = {
    "an option over the file": [
      [entry('"/r"')],
      ["-c", 'projects={"/r"={trust_level="untrusted"}}'],
      "untrusted",
    ],
    "an option of another folder": [
      [entry('"/r"')],
      ["-c", 'projects={"/x"={trust_level="untrusted"}}'],
      "trusted",
    ],
    "an option alone": [[], ["-c", 'projects={"/r"={trust_level="trusted"}}'], "trusted"],
    "an option that cannot be read": [[entry('"/r"')], ["-c", "projects={[}"], "untrusted"],
    "the first file over the second": [[entry('"/r"', "untrusted"), entry('"/r"')], [], "untrusted"],
    "the second file": [[entry('"/x"'), entry('"/r"')], [], "trusted"],
    "an inline table": [['projects = { "/r" = { trust_level = "trusted" } } # own'], [], "trusted"],
    "a table of tables": [['[projects]\n"/r" = { trust_level = "untrusted" }'], [], "untrusted"],
    "a dotted key": [['projects."/r".trust_level = "untrusted"'], [], "untrusted"],
    "a key of another table": [['[x]\nprojects."/r".trust_level = "trusted"'], [], "unset"],
  };
  test.each(Object.entries(others))("%s", (_name, [texts, args, then]) => {
    expect(codex.folderTrust?.in(texts, ["/r", "/r"], args)).toBe(then);
  });
});

/** Codex's trust in a folder: read from its config, preserved over a run's attempts, and reported before a start. */
import { describe, expect, test } from "vitest";
import { codex } from "./codex.ts";
import type { Ask } from "./engine.ts";

const ID = "01a1dd0a-a544-73b2-b8f5-4b79ca6d17f0";

const ask = (line: string, part: Partial<Ask>): Ask => ({
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

const argsOf = (wish: Ask) => codex.command(wish).args.join(" ");

const resume = (line: string, part: Partial<Ask>) => ask(line, { kind: "resume", session: ID, ...part });

describe("trusts the folder no more than at the start of the run (I12):", () => {
  const pin = `-c projects={${["/home/user/lab", "/home/user", "/home"].map((at) => `"${at}"={trust_level="untrusted"}`).join(",")}}`;
  const ro = ["-s", "read-only"];
  const writes = (...rules: string[]) => [
    ...["-c", `permissions.reprise-held.filesystem={${rules.join(",")}}`],
    ...["-c", 'default_permissions="reprise-held"'],
  ];
  const cases: Record<string, readonly [part: Partial<Ask>, line: string, held: boolean]> = {
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

  test("the receipt says so, and the run's own setting for folders counts", () => {
    const own = `-c projects={"/x"={trust_level="trusted"}}`;
    const { args, options } = codex.command(resume(own, { folderTrust: "unset", rights: ro }));
    expect(args.join(" ")).toBe(`exec -s read-only resume --json ${pin} ${own} ${ID} -`);
    expect(options.kept).toEqual([own]);
    expect(options.rewritten).toContain("trust in the folder → none, as when the run was started");
  });

  test("a server gets the same setting", () => {
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

test("says nothing about trust where an option forbids it", () => {
  const line = `-s workspace-write -c projects={"/home/user/lab"={trust_level="untrusted"}}`;
  expect(codex.command(ask(line, { folderTrust: "unset" })).warnings).toBeUndefined();
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
    expect(codex.folderTrust?.in(text, [cwd, ...checkouts])).toBe(then);
  });
});

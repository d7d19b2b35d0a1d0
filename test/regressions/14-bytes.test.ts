/**
 * Text that is not valid UTF-8 is refused by name before anything is started or recorded: Node would pass it on
 * altered.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";
import { CLI, collect, Sandbox } from "../e2e/sandbox.ts";

/** A shell makes the bytes, which Node itself could not: `\351` in `words` is the byte E9. */
function shell(box: Sandbox, words: string, cwd = box.cwd) {
  const script = `reprise() { exec ${JSON.stringify(process.execPath)} ${JSON.stringify(CLI)} "$@"; }\nbad="$(printf 'caf\\351')"\n${words}`;
  return collect(
    spawn("/bin/sh", ["-c", script], { cwd, env: box.env(), stdio: ["ignore", "pipe", "pipe"] }),
  );
}

const ARGUMENTS: readonly (readonly [string, string])[] = [
  ['reprise start demo "$bad"', "Argument 3"],
  ['reprise start demo --json hello -- --note "$bad"', "Argument 7"],
  ['reprise start demo --cwd "$bad" hello', "Argument 4"],
  ['reprise start demo --env "NOTE=$bad" hello', "Argument 4"],
  ['reprise resume 00000000 "$bad"', "Argument 3"],
  ['reprise list --cwd "$bad"', "Argument 3"],
];

test.skipIf(process.platform !== "linux").for(ARGUMENTS)(
  "%s is refused, and %s is named",
  async ([words, name]) => {
    using box = new Sandbox();
    const { code, stdout, stderr } = await shell(box, words);
    expect({ code, said: `${stdout}${stderr}` }).toEqual({
      code: 2,
      said: expect.stringContaining(`${name} is not valid UTF-8 (byte`),
    });
    expect(existsSync(box.state)).toBe(false);
    expect(box.journalEntries()).toEqual([]);
  },
);

test.skipIf(process.platform !== "linux")(
  "a variable that is not UTF-8 is refused where an agent would get it, and the other commands continue",
  async () => {
    using box = new Sandbox();
    const refused = await shell(box, 'NOTE="$bad" OTHER="$bad"; export NOTE OTHER; reprise start demo hello');
    expect(refused).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/variables NOTE, OTHER are not valid UTF-8.*env -u NOTE -u OTHER/),
    });
    const named = await shell(box, `env "$bad=1" '${process.execPath}' '${CLI}' start demo hello`);
    expect(named).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/variable caf\\xe9 is not valid UTF-8.*env -u \$'caf\\xe9' reprise/),
    });
    expect(box.runDirectories()).toEqual([]);
    expect(await shell(box, 'NOTE="$bad"; export NOTE; reprise list')).toMatchObject({ code: 0, stderr: "" });
    const place = await shell(box, 'REPRISE_HOME="/tmp/$bad"; export REPRISE_HOME; reprise list');
    expect(place).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("REPRISE_HOME is not valid UTF-8"),
    });
  },
);

test.skipIf(process.platform !== "linux")(
  "a text that holds the replacement character itself passes unchanged",
  async () => {
    using box = new Sandbox();
    const text = "caf\uFFFD";
    const started = await box.json(["start", "demo", text], { env: { NOTE: text } });
    expect(started).toMatchObject({ ok: true });
    expect(JSON.stringify(box.journalEntries())).toContain(text);
  },
);

test.skipIf(process.platform !== "linux")(
  "a folder whose name is not UTF-8 is refused for that reason, as current directory and behind a link",
  async () => {
    using box = new Sandbox();
    mkdirSync(Buffer.concat([Buffer.from(`${box.root}/caf`), Buffer.from([0xe9])]));
    const why = /caf\\xe9" has a name that is not valid UTF-8/;
    for (const words of ["start demo hello", "adopt demo", "issues run --dry-run --engine demo"]) {
      const result = await shell(box, `cd "../$bad" && reprise ${words}`);
      expect({ words, ...result }).toMatchObject({ code: 2, stderr: expect.stringMatching(why) });
    }
    symlinkSync(Buffer.concat([Buffer.from(`${box.root}/caf`), Buffer.from([0xe9])]), join(box.root, "link"));
    const linked = await box.run(["start", "demo", "--cwd", join(box.root, "link"), "hello"]);
    expect(linked).toMatchObject({ code: 2, stderr: expect.stringMatching(why) });
    expect(box.runDirectories()).toEqual([]);
  },
);

test.skipIf(process.platform !== "linux")(
  "an issue whose file name is not UTF-8 is left out by name",
  async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt");
    const bad = Buffer.concat([
      Buffer.from(`${box.cwd}/issues/caf`),
      Buffer.from([0xe9]),
      Buffer.from(".md"),
    ]);
    writeFileSync(bad, "---\nid: b\ntitle: B\nstatus: open\n---\n@@write:b.txt\n");
    box.commit();
    const { code, stderr } = await box.batch("--dry-run");
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringContaining("was skipped: its name is not valid UTF-8"),
    });
  },
);

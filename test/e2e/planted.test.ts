/** What somebody put in the place of a run's own directories is refused before anything is written there: `docs/security.md`. */
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Sandbox } from "./sandbox.ts";

let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
});
afterAll(() => box[Symbol.dispose]());

interface Planted {
  readonly handle: string;
  readonly attempts: string;
  readonly victim: string;
}

async function begun(name: string): Promise<Planted> {
  const { handle, runDirectory } = await box.json(["start", "demo", "hello"]);
  const victim = join(box.root, name.replaceAll(/\W/g, "-"));
  mkdirSync(victim);
  for (const file of ["meta.json", "receipt.json", "stdout.log"])
    writeFileSync(join(victim, file), "as it was");
  return { handle, attempts: join(runDirectory, "attempts"), victim };
}

const contents = (directory: string) =>
  readdirSync(directory).map((name) => [name, readFileSync(join(directory, name), "utf8")]);
const starts = () => box.journalEntries().filter(({ event }) => event === "start").length;

const lay: Record<string, (planted: Planted) => string> = {
  "attempts/2 is a link"({ attempts, victim }) {
    symlinkSync(victim, join(attempts, "2"));
    return join(attempts, "2");
  },
  "attempts is a link"({ attempts, victim }) {
    renameSync(attempts, `${attempts}.moved`);
    symlinkSync(victim, attempts);
    return attempts;
  },
  "attempts may be written by all"({ attempts }) {
    chmodSync(attempts, 0o777);
    return attempts;
  },
};
const commands: Record<string, (handle: string) => readonly string[]> = {
  resume: (handle) => ["resume", handle, "go"],
  "resume --detach": (handle) => ["resume", "--detach", handle, "go"],
  "start --run-dir": (handle) => ["start", "demo", "go", "--run-dir", runDirectoryOf(handle)],
};
const runDirectoryOf = (handle: string) => box.runDirectories().find((path) => path.endsWith(handle)) ?? "";
const cases = [
  ...Object.keys(commands).map((how) => ["attempts/2 is a link", how] as const),
  ["attempts is a link", "resume"],
  ["attempts may be written by all", "resume"],
] as const;

test.each(cases)("%s: %s is refused, and nothing appears behind it", async (what, how) => {
  const planted = await begun(`${what} ${how}`);
  const path = lay[what]?.(planted) ?? "";
  const before = {
    contents: contents(planted.victim),
    starts: starts(),
    places: readdirSync(planted.attempts),
  };
  const { code, stderr } = await box.run(commands[how]?.(planted.handle) ?? []);
  expect({ code, stderr }).toEqual({
    code: 8,
    stderr: expect.stringContaining(`${path} has unsafe ownership or permissions`),
  });
  expect({
    contents: contents(planted.victim),
    starts: starts(),
    places: readdirSync(planted.attempts),
  }).toEqual(before);
  // Refused, not failed: the run is as it was.
  expect(await box.json(["show", planted.handle])).toMatchObject({
    status: "completed",
    attempts: 1,
  });
});

describe("an attempt's directory that is there already and ours", () => {
  test("is used if it is empty, as after a crash", async () => {
    const { handle, attempts } = await begun("empty");
    mkdirSync(join(attempts, "2"), { mode: 0o700 });
    expect((await box.run(["resume", handle, "go"])).code).toBe(0);
    expect(readdirSync(attempts).toSorted()).toEqual(["1", "2"]);
  });

  test("with files in it is kept beside the attempt, and links in it are not followed", async () => {
    const { handle, attempts, victim } = await begun("files");
    mkdirSync(join(attempts, "2"), { mode: 0o700 });
    writeFileSync(join(attempts, "2/stdout.log"), "from elsewhere");
    symlinkSync(join(victim, "meta.json"), join(attempts, "2/meta.json"));
    expect((await box.run(["resume", handle, "go"])).code).toBe(0);
    const kept = readdirSync(attempts).filter((name) => name.startsWith("2.found-"));
    expect(kept).toHaveLength(1);
    expect(readFileSync(join(attempts, kept[0] ?? "", "stdout.log"), "utf8")).toBe("from elsewhere");
    expect(readFileSync(join(attempts, "2/stdout.log"), "utf8")).not.toContain("from elsewhere");
    expect(readFileSync(join(victim, "meta.json"), "utf8")).toBe("as it was");
  });
});

test("a linked attempts directory is not read, and doctor names it", async () => {
  const planted = await begun("reading");
  const path = lay["attempts is a link"]?.(planted) ?? "";
  expect(await box.run(["logs", planted.handle])).toMatchObject({ code: 8, stdout: "" });
  const { findings } = await box.json<{ findings: { what: string }[] }>(["doctor"]);
  expect(findings.map(({ what }) => what)).toContain(`run ${planted.handle}: ${path}: it is a symbolic link`);
});

test("an agent does not work behind a linked directory", async () => {
  const { handle, runDirectory } = await box.json(["start", "demo", "hello", "--isolate", "dir"]);
  const [work, victim] = [join(runDirectory, "work"), join(box.root, "elsewhere")];
  mkdirSync(victim);
  renameSync(work, `${work}.moved`);
  symlinkSync(victim, work);
  expect(await box.run(["resume", handle, "@@write:evil.txt"])).toMatchObject({
    code: 8,
    stderr: expect.stringContaining(`${work} has unsafe ownership or permissions`),
  });
  expect(readdirSync(victim)).toEqual([]);
});

/** A run that a limit ended: every place that shows its state says so, and until when. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Sandbox } from "./sandbox.ts";
import { HAS_TMUX, Screen } from "./screen.ts";

let box: Sandbox;
const handles: Record<string, string> = {};
const resetsAt = new Date(Date.now() + 6 * 3_600_000).toISOString();
const ended = new Date(Date.now() - 2 * 3_600_000).toISOString();

beforeAll(async () => {
  box = new Sandbox();
  const start = async (key: string, message: string) => {
    handles[key] = String((await box.json(["start", "demo", message]))["handle"]);
  };
  await start("over", `was limited @@429:reset=${ended}`);
  await start("limited", `is limited @@429:reset=${resetsAt}`);
  await start("failed", "is broken @@500");
  await start("done", "is done");
  // A limit of an earlier attempt says nothing about the run.
  await start("again", `went on @@429:reset=${resetsAt}`);
  await box.run(["resume", handles["again"] ?? "", "go on"]);
}, 60_000);
afterAll(() => box[Symbol.dispose]());

test("list says until when, and since when it can go on; --status limited finds both", async () => {
  const { stdout } = await box.run(["list"]);
  const row = (key: string) => stdout.split("\n").find((line) => line.startsWith(handles[key] ?? "")) ?? "";
  expect(row("limited")).toMatch(/ demo +limited, resets in 6 h +1 /);
  expect(row("over")).toMatch(/ demo +limit ended 2 h ago +1 /);
  expect(row("failed")).toMatch(/ demo +failed +1 /);
  expect(row("again")).toMatch(/ demo +completed +2 /);
  const found = await box.run(["list", "--status", "limited", "--handles"]);
  expect(found.stdout.split("\n").filter(Boolean)).toEqual([handles["limited"], handles["over"]]);
  const failed = await box.run(["list", "--status", "failed", "--handles"]);
  expect(failed.stdout.split("\n").filter(Boolean)).toEqual(
    ["failed", "limited", "over"].map((key) => handles[key]),
  );
});

test("--json keeps the status and adds the limit, with its full time", async () => {
  const { runs } = await box.json<{ runs: Record<string, any>[] }>(["list"]);
  const by = (key: string) => runs.find(({ handle }) => handle === handles[key]);
  const limit = { kind: "rate_limited", resetsAt };
  expect(by("limited")).toMatchObject({ status: "failed", limit });
  for (const key of ["failed", "done", "again"]) expect(by(key)).not.toHaveProperty("limit");
  expect(await box.json(["show", handles["limited"] ?? ""])).toMatchObject({ status: "failed", limit });
  expect(await box.json(["show", handles["again"] ?? ""])).toMatchObject({ limit: null });
  const waited = await box.json(["wait", handles["limited"] ?? ""]);
  expect(waited).toMatchObject({ runs: [{ status: "failed", limit, exitCode: 75 }] });
});

test("show, wait and usage use the same words", async () => {
  const shown = async (key: string) => (await box.run(["show", handles[key] ?? ""])).stdout;
  expect(await shown("limited")).toMatch(/^status +limited, resets in 6 h, 1 attempt, updated /m);
  expect(await shown("over")).toMatch(/^status +limit ended 2 h ago, can go on, 1 attempt, updated /m);
  expect((await box.run(["wait", handles["limited"] ?? ""])).stdout).toBe(
    `${handles["limited"] ?? ""}  limited, resets in 6 h\n`,
  );
  const { stdout } = await box.run(["usage"]);
  expect(stdout).toMatch(
    new RegExp(`${handles["limited"] ?? ""} +rate_limited until .*\\(in (?:6 h|5 h 5\\d min)\\)`),
  );
  expect(stdout).toMatch(new RegExp(`${handles["over"] ?? ""} +rate_limited \\(ended `));
  const again = await box.run(["resume", handles["over"] ?? "", `once more @@429:reset=${ended}`]);
  expect(again.stderr).toMatch(/^limited: /m);
});

test("an index made again knows the limits", async () => {
  await box.run(["doctor", "--rebuild-index"]);
  const found = await box.run(["list", "--status", "limited", "--handles"]);
  expect(found.stdout).toContain(handles["limited"]);
});

describe.skipIf(!HAS_TMUX)("in tmux", () => {
  test.each([
    [80, 24, / limited 6 h /, /^\S+ +demo +limited, 6 h left /m],
    [120, 40, / limited +.*resets in 6 h/, /^\S+ +demo +limited, resets in 6 h /m],
  ])("%i × %i: home screen, picker and list fit it", async (cols, rows, home, list) => {
    using screen = new Screen(box, { name: `limited-${cols}`, cols, rows });
    screen.type(`reprise; echo "HOME $?"`);
    await screen.shows(home);
    await screen.shows(/ limit ended /);
    screen.key("q");
    await screen.shows(/^HOME 0$/m);
    screen.type(`reprise logs; echo "PICKER $?"`);
    const picker = await screen.shows(/ limited 6 h +\S/);
    expect(picker).toMatch(/ limit ended +/);
    for (const line of picker.split("\n")) expect(line.trimEnd().length).toBeLessThanOrEqual(cols);
    screen.tmux("send-keys", "-l", "limited");
    await screen.shows(/^❯ \S+ limited @/m);
    screen.key("Escape");
    await screen.shows(/^PICKER 130$/m);
    screen.type("clear; reprise list");
    await screen.shows(list);
  });
});

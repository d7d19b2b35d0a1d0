/** `reprise search`: what it finds, what it shows, and what becomes of `search.db`. */
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Sandbox } from "./sandbox.ts";
import { HAS_TMUX, Screen } from "./screen.ts";

let box: Sandbox;
let handle: string;
const file = (name = "search.db") => join(box.state, name);
const found = async (...words: string[]): Promise<string[]> => {
  const { results } = await box.json(["search", ...words]);
  return results.map((one: { handle: string }) => one.handle);
};

/** The bytes of the file and its log. */
const bytes = () =>
  readdirSync(box.state)
    .filter((name) => name.startsWith("search.db"))
    .map((name) => readFileSync(file(name), "latin1"))
    .join("");

beforeAll(async () => {
  box = new Sandbox();
  ({ handle } = await box.json([
    "start",
    "demo",
    "fix the flaky cart test in src/cart.test.ts, see renameCart",
  ]));
  await box.json(["start", "demo", "write a poem about rivers"]);
});
afterAll(() => box[Symbol.dispose]());

test("the first search makes a private file, and later the end of an attempt fills it", async () => {
  expect(readdirSync(box.state).filter((name) => name.startsWith("search"))).toEqual([]);
  await box.run(["search", "anything"]);
  expect(statSync(file()).mode & 0o777).toBe(0o600);
  expect(bytes()).toContain("flaky cart test");
  const other = await box.json(["start", "demo", "a sentence about volcanoes"]);
  expect(bytes()).toContain("volcanoes");
  await box.run(["rm", other["handle"] as string]);
});

test.each([
  ["words in any order", ["test", "flaky"]],
  ["a phrase", ['"flaky cart test"']],
  ["a file name", ["cart.test.ts"]],
  ["a beginning", ["flak*"]],
  ["a part of an identifier", ["rename", "cart"]],
  ["capitals", ["FLAKY"]],
])("finds %s", async (_, words) => {
  expect(await found(...words)).toEqual([handle]);
});

test.each([
  ['"'],
  ["*"],
  ["NEAR("],
  ["text:flaky"],
  ["flaky -cart)"],
  ["a' OR 1=1 --x"],
  ["{flaky}:"],
  ["^flaky +"],
])("no query is a syntax error: %s", async (query) => {
  const { code, stderr } = await box.run(["search", "--", query]);
  expect([0, 2]).toContain(code);
  expect(stderr).not.toMatch(/fts5|SQL|syntax error/i);
});

test("shows handle, engine, title and the line within 80 columns, without colours in a pipe", async () => {
  const { stdout, code } = await box.run(["search", "flaky", "cart"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(new RegExp(`^${handle}  .*demo  fix the flaky cart test`));
  expect(stdout).toContain("fix the flaky cart test in src/cart.test.ts");
  expect(stdout).not.toContain("\u001b");
  for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
});

test("JSON names attempt, time, kind, line and the places of the hits", async () => {
  const { results } = await box.json(["search", "flaky"]);
  expect(results).toHaveLength(1);
  const [{ at, line, ranges, ...rest }] = results;
  expect(rest).toMatchObject({ handle, attempt: 1, kind: "message", engine: "demo" });
  expect(new Date(at).toISOString()).toBe(at);
  expect(ranges.map(([from, to]: [number, number]) => line.slice(from, to))).toEqual(["flaky"]);
});

test("filters by engine, time and directory", async () => {
  expect(await found("flaky", "--engine", "codex")).toEqual([]);
  expect(await found("flaky", "--engine", "demo", "--since", "1h", "--here")).toEqual([handle]);
  expect(await found("flaky", "--since", "2999-01-01")).toEqual([]);
  const elsewhere = await box.run(["search", "flaky", "--here", "--json"], { cwd: box.home });
  expect(JSON.parse(elsewhere.stdout).results).toEqual([]);
  expect((await box.run(["search", "flaky", "--since", "soon"])).code).toBe(2);
  expect((await box.run(["search", "flaky", "--engine", "nonesuch"])).code).not.toBe(0);
});

test("a new attempt is found with its message and answer", async () => {
  await box.json(["resume", handle, "now the zebra crossing"]);
  const { results } = await box.json(["search", "zebra"]);
  expect(results).toMatchObject([{ handle, attempt: 2 }]);
});

test.each([
  ["missing", () => rmSync(file())],
  ["damaged", () => writeFileSync(file(), "no database".repeat(1_000))],
  ["empty", () => writeFileSync(file(), "")],
  [
    "damaged in its middle",
    () => {
      const content = readFileSync(file());
      content.fill(0x5a, 4_096, content.length);
      writeFileSync(file(), content);
    },
  ],
])("a %s file is made again", async (_, harm) => {
  await found("flaky");
  for (const name of ["search.db-wal", "search.db-shm"]) rmSync(file(name), { force: true });
  harm();
  expect(await found("flaky")).toEqual([handle]);
  expect(statSync(file()).mode & 0o777).toBe(0o600);
});

test("says how many conversations fit beyond the limit, and --all shows them", async () => {
  const made = [
    await box.json(["start", "demo", "one pelican"]),
    await box.json(["start", "demo", "two pelicans: a pelican"]),
  ];
  const cut = await box.run(["search", "pelican", "--limit", "1"]);
  expect(cut).toMatchObject({
    code: 0,
    stderr: "reprise: these are 1 of 2 conversations; --all shows them all.\n",
  });
  expect(await box.json(["search", "pelican", "--limit", "1"])).toMatchObject({ results: [{}], total: 2 });
  expect((await box.run(["search", "pelican", "--all"])).stderr).toBe("");
  expect((await found("pelican", "--all")).toSorted()).toEqual(
    made.map((one) => String(one["handle"])).toSorted(),
  );
  expect((await box.run(["search", "pelican", "--all", "--limit", "1"])).code).toBe(2);
});

test.skipIf(!HAS_TMUX)("on a terminal, Enter resumes a result, and Esc leaves with 130", async () => {
  using screen = new Screen(box, { name: "search", cols: 100, rows: 30 });
  const attempts = async () => (await box.json(["show", handle]))["attempts"] as number;
  const before = await attempts();
  screen.type("cd ..");
  screen.type(`reprise search flaky cart; echo "ENDED $?"`);
  await screen.shows(/^Resume which run\? +1 of 1, all folders[^]*^fix the flaky cart test in src/m);
  expect(screen.painted()).toContain("\u001b[33mflaky");
  screen.key("Escape");
  const left = await screen.shows(/^ENDED 130$/m);
  expect(left).toMatch(new RegExp(`^${handle} .*fix the flaky cart test`, "m"));
  expect(await attempts()).toBe(before);
  screen.type(`reprise search flaky cart; echo "ENDED $?"`);
  await screen.shows("Resume which run?");
  await screen.shows(/^❯ fix the flaky cart test/m);
  screen.key("Enter");
  await screen.shows(/^ENDED 0$/m);
  expect(await attempts()).toBe(before + 1);
});

test("control sequences and huge lines of an agent change nothing on the terminal", async () => {
  await box.json(["start", "demo", `hostile\u001b]0;owned\u0007\u001b[2J ${"long ".repeat(20_000)} needle`]);
  const { stdout } = await box.run(["search", "hostile", "needle"]);
  expect(stdout).toContain("hostile");
  // oxlint-disable-next-line no-control-regex -- what must not be there
  expect(stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
  for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
});

test("secrets are not in the file", async () => {
  const env = { DEPLOY_TOKEN: "q9w8e7r6t5z4u3i2" };
  await box.run(["start", "demo", "@@env:DEPLOY_TOKEN the umbrella key is sk-abcdefghijklmnopqrstuv"], {
    env,
  });
  expect(await found("umbrella")).toHaveLength(1);
  expect(bytes()).not.toMatch(/q9w8e7r6t5z4u3i2|sk-abcdefghijklmnopqrstuv/);
});

test("the text of a removed run is gone from the results and from the file", async () => {
  const { handle: short } = await box.json(["start", "demo", "the xylophone quartet"]);
  expect(await found("xylophone")).toEqual([short]);
  expect(bytes()).toContain("xylophone");
  await box.run(["rm", short]);
  expect(bytes()).not.toContain("xylophone");
  expect(await found("xylophone")).toEqual([]);
});

test("a run directory that disappeared leaves the results at the next search", async () => {
  const { runDirectory } = await box.json(["start", "demo", "the marimba trio"]);
  rmSync(runDirectory, { recursive: true });
  expect(await found("marimba")).toEqual([]);
  expect(bytes()).not.toContain("marimba");
});

test("a read-only state directory is searched as far as it is indexed", async () => {
  if (process.getuid?.() === 0) return;
  await found("flaky");
  chmodSync(box.state, 0o500);
  try {
    const { stdout, stderr } = await box.run(["search", "flaky", "--json"]);
    expect(JSON.parse(stdout).results).toHaveLength(1);
    expect(stderr).toContain("cannot be written");
  } finally {
    chmodSync(box.state, 0o700);
  }
});

test("searches at the same time share one new file", async () => {
  rmSync(file());
  const all = await Promise.all([1, 2, 3, 4].map(() => found("flaky", "cart")));
  expect(all).toEqual([[handle], [handle], [handle], [handle]]);
  const { results } = await box.json(["search", "flaky"]);
  expect(results).toHaveLength(1);
});

test("--everywhere finds conversations outside Reprise and says how to adopt them", async () => {
  using other = new Sandbox();
  const demoHome = join(box.state, "demo");
  expect(existsSync(demoHome)).toBe(true);
  const env = { REPRISE_DEMO_HOME: demoHome };
  const plain = await other.json(["search", "flaky", "cart"], { env });
  expect(plain["results"]).toEqual([]);
  const { results } = await other.json(["search", "flaky", "cart", "--everywhere"], { env });
  expect(results).toMatchObject([{ handle: null, engine: "demo", kind: "message" }]);
  expect(results[0].adopt).toBe(`reprise adopt demo ${results[0].session}`);
  const words = results[0].adopt.split(" ").slice(1);
  const adopted = await other.json(words, { env });
  const after = await other.json(["search", "flaky", "cart", "--everywhere"], { env });
  expect(after["results"]).toMatchObject([{ handle: adopted["handle"] }]);
  const text = await other.run(["search", "flaky", "--everywhere"], { env });
  expect(text.stdout).toContain(adopted["handle"]);
});

describe.skipIf(!HAS_TMUX)("on a terminal, a conversation outside Reprise", () => {
  /** A conversation that another state directory's run began, and a place that knows nothing of it. */
  async function outside(words: string) {
    const { session } = await box.json(["start", "demo", words]);
    const env = { REPRISE_DEMO_HOME: join(box.state, "demo") };
    return { other: new Sandbox(), env, session: String(session.value) };
  }
  const runs = async (other: Sandbox) =>
    (await other.json<{ runs: Record<string, any>[] }>(["list"])).runs.map(({ session, attempts }) => ({
      session: session.value,
      attempts,
    }));

  test("is adopted and resumed by Enter, and by nothing else", async () => {
    const { other, env, session } = await outside("the bassoon concerto");
    using _other = other;
    using screen = new Screen(other, { name: "outside", cols: 100, rows: 30, env });
    screen.type(`reprise search bassoon --everywhere; echo "ENDED $?"`);
    await screen.shows(/^Resume which conversation\? +1 of 1[^]*^❯ the bassoon concerto .* demo +outside /m);
    await screen.shows("Enter makes it a run");
    screen.key("Escape");
    await screen.shows(/^ENDED 130$/m);
    expect(await runs(other)).toEqual([]);
    screen.type(`clear; reprise search bassoon --everywhere; echo "ENDED $?"`);
    await screen.shows(/^❯ the bassoon concerto/m);
    screen.key("Enter");
    const shown = await screen.shows(/^ENDED 0$/m);
    expect(shown).toMatch(/adopted as run [0-9a-f]{8}\./);
    expect(await runs(other)).toEqual([{ session, attempts: 1 }]);
  });

  test("that cannot be adopted is refused with what to type", async () => {
    const { other, env, session } = await outside("the oboe sonata");
    using _other = other;
    using screen = new Screen(other, { name: "lost", cols: 160, rows: 30, env });
    screen.type(`reprise search oboe --everywhere; echo "ENDED $?"`);
    await screen.shows(/^❯ the oboe sonata/m);
    for (const name of readdirSync(env.REPRISE_DEMO_HOME, { recursive: true, encoding: "utf8" }))
      if (name.includes(session)) rmSync(join(env.REPRISE_DEMO_HOME, name), { recursive: true });
    screen.key("Enter");
    const shown = await screen.shows(/^ENDED 3$/m);
    expect(shown.replaceAll("\n", " ")).toMatch(
      /The conversation was not adopted: .*`reprise adopt demo --all`/,
    );
    expect(await runs(other)).toEqual([]);
  });
});

/** `doctor`, and an index that is damaged, gone or behind: what `docs/cli.md` promises. */
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { collect, Sandbox, until } from "./sandbox.ts";

const indexFiles = (box: Sandbox) => readdirSync(box.state).filter((name) => name.startsWith("index.db"));

/** The index as it was before the work, and nothing that says how far it had come: then doctor has to find out. */
async function withIndexOfBefore(box: Sandbox, work: () => Promise<void>): Promise<void> {
  const copy = join(box.root, "index-of-before");
  copyFileSync(join(box.state, "index.db"), copy);
  await work();
  const noted = readdirSync(join(box.state, "runs")).filter((name) => name.startsWith(".generation."));
  for (const name of noted) rmSync(join(box.state, "runs", name));
  for (const name of indexFiles(box)) rmSync(join(box.state, name));
  renameSync(copy, join(box.state, "index.db"));
}

/** A run that will not end by itself; resolves when the agent has answered half. */
async function startLive(box: Sandbox) {
  const child = box.spawn(["start", "demo", "work @@hang"]);
  child.stdin?.end();
  const done = collect(child);
  const directory = await until("the run", () => box.runDirectories()[0]);
  const tape = join(directory, "attempts/1/stdout.log");
  await until("half of the answer", () => existsSync(tape) && readFileSync(tape, "utf8").includes('"text"'));
  return { child, done, handle: directory.slice(-8) };
}

test("doctor reports that all is well", async () => {
  using own = new Sandbox();
  const { code, stdout } = await own.run(["doctor"]);
  expect(code).toBe(0);
  expect(stdout).toContain(own.state);
  const health = await own.json(["doctor"]);
  expect(health).toMatchObject({
    ok: true,
    state: { path: own.state, mode: "700", writable: true },
    index: { backend: "sqlite", runs: 0, damaged: 0 },
  });
  expect((health["engines"] as { id: string }[]).map((one) => one.id)).toEqual(
    expect.arrayContaining(["codex", "claude", "gemini", "iflow", "opencode", "demo"]),
  );
});

test("doctor finds differences between index and run directories, and a rebuild repairs them", async () => {
  using own = new Sandbox();
  await own.run(["list"]);
  let one: Record<string, any> = {};
  let two: Record<string, any> = {};
  await withIndexOfBefore(own, async () => {
    one = await own.json(["start", "demo", "one"]);
    two = await own.json(["start", "demo", "two"]);
    await own.run(["resume", two["handle"], "again"]);
  });
  const broken = await own.run(["doctor"]);
  expect(broken.code).toBe(0);
  expect(broken.stdout).toContain("the index was older than the run directories");
  expect(broken.stdout).toContain("2 runs brought up to date");
  writeFileSync(join(one["runDirectory"], "run.json"), "{ torn");
  const rebuilt = await own.run(["doctor", "--rebuild-index", "--json"]);
  expect(rebuilt.code).toBe(1);
  expect(rebuilt.stderr).toContain(join(one["runDirectory"], "run.json"));
  expect(JSON.parse(rebuilt.stdout)).toMatchObject({
    ok: false,
    rebuilt: { runs: 1, skipped: 1, setAside: null },
  });
  expect(await own.json(["show", two["handle"]])).toMatchObject({
    attempts: 2,
    status: "completed",
    warnings: [],
  });
  expect(await own.run(["resume", two["handle"], "third"])).toMatchObject({ code: 0 });
  rmSync(two["runDirectory"], { recursive: true });
  expect((await own.run(["doctor"])).stdout).toContain(`reprise rm ${two["handle"]}`);
});

test("a run that the index has lost is still found by its handle", async () => {
  using own = new Sandbox();
  await own.run(["list"]);
  let one: Record<string, any> = {};
  await withIndexOfBefore(own, async () => {
    one = await own.json(["start", "demo", "one"]);
  });
  const resumed = await own.run(["resume", one["handle"], "two"]);
  expect(resumed.code).toBe(0);
  expect(resumed.stderr).toContain("the index was older than the run directories");
  expect(await own.json(["show", one["handle"]])).toMatchObject({ attempts: 2, warnings: [] });
  expect(await own.run(["rm", one["handle"]])).toMatchObject({ code: 0 });
  expect(await own.run(["show", one["handle"]])).toMatchObject({ code: 3 });
});

test("any command sets a damaged index aside and rebuilds it", async () => {
  using own = new Sandbox();
  const one = await own.json(["start", "demo", "one"]);
  writeFileSync(
    join(own.state, "index.db"),
    "this is no database, and it is long enough to be looked at. ".repeat(200),
  );
  const { code, stdout, stderr } = await own.run(["list"]);
  expect(code).toBe(0);
  expect(stdout).toContain(one["handle"]);
  expect(stderr).toContain("index.db.damaged-");
  expect(
    readdirSync(own.state).filter((name) => /^index\.db\.damaged-\d{8}T\d{6}Z$/.test(name)),
  ).toHaveLength(1);
  expect(await own.run(["list"])).toMatchObject({ code: 0, stderr: "" });
  expect(await own.run(["resume", one["handle"], "more"])).toMatchObject({ code: 0 });
});

test("a rebuild leaves a live run alone", async () => {
  using own = new Sandbox();
  const { done, handle } = await startLive(own);
  expect((await own.run(["doctor", "--rebuild-index"])).stdout).toContain("from the run directories");
  expect(await own.run(["resume", handle, "me too"])).toMatchObject({ code: 4 });
  expect(await own.json(["stop", handle])).toMatchObject({ how: "asked", status: "cancelled" });
  expect((await done).code).toBe(130);
});

test("a damaged index is not replaced under a live run", async () => {
  using own = new Sandbox();
  const { child, done, handle } = await startLive(own);
  // A copy stands in for the damage, so that the live process keeps the file that it has open.
  cpSync(join(own.state, "index.db"), join(own.state, "copy"));
  const bytes = readFileSync(join(own.state, "copy"));
  bytes.fill(0x5a, 0, 2_000);
  writeFileSync(join(own.state, "copy"), bytes);
  renameSync(join(own.state, "copy"), join(own.state, "index.db"));
  for (const suffix of ["-wal", "-shm"]) rmSync(join(own.state, `index.db${suffix}`), { force: true });
  const { code, stderr } = await own.run(["list"]);
  expect(code).toBe(5);
  expect(stderr).toContain(`run ${handle} is live (pid ${child.pid})`);
  child.kill("SIGINT");
  await done;
  const after = await own.run(["list"]);
  expect(after.code).toBe(0);
  expect(after.stdout).toMatch(new RegExp(`${handle}\\s+demo\\s+cancelled`));
});

test.each(["gone", "empty"])("any command rebuilds an index that is %s", async (how) => {
  using own = new Sandbox();
  const one = await own.json(["start", "demo", "one"]);
  await own.run(["resume", one["handle"], "two"]);
  for (const name of indexFiles(own)) rmSync(join(own.state, name));
  if (how === "empty") writeFileSync(join(own.state, "index.db"), "");
  const { code, stdout, stderr } = await own.run(["list"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(new RegExp(`${one["handle"]}\\s+demo\\s+completed\\s+2 `));
  expect(stderr).toBe(
    "reprise: warning: the index was gone; it was rebuilt with 1 run from the run directories.\n",
  );
  expect(indexFiles(own).filter((name) => name.includes("damaged"))).toEqual([]);
  expect(await own.run(["list"])).toMatchObject({ code: 0, stderr: "" });
  expect(await own.run(["resume", one["handle"], "three"])).toMatchObject({ code: 0 });
});

test("an index that is gone is not rebuilt under a live run", async () => {
  using own = new Sandbox();
  const { child, done, handle } = await startLive(own);
  for (const name of indexFiles(own)) rmSync(join(own.state, name));
  const { code, stderr } = await own.run(["list"]);
  expect({ code, stderr }).toEqual({
    code: 5,
    stderr: expect.stringContaining(`is gone, and run ${handle} is live (pid ${child.pid})`),
  });
  child.kill("SIGKILL");
  await done;
  const after = await own.run(["list"]);
  expect(after.stdout).toMatch(new RegExp(`${handle}\\s+demo\\s+interrupted`));
});

/** Findings about runs, as sentences with what helps. */
async function findings(box: Sandbox): Promise<readonly string[]> {
  const health = await box.json(["doctor"]);
  return (health["findings"] as Record<string, string | null>[])
    .filter((one) => one["about"] === "runs")
    .map((one) => `${one["level"]}: ${one["what"]} → ${one["todo"]}`);
}

test("doctor finds a damaged record of an attempt, and only notes it once it is set aside", async () => {
  using own = new Sandbox();
  const { handle, runDirectory } = await own.json(["start", "demo", "one"]);
  await own.run(["resume", handle, "two"]);
  expect(await findings(own)).toEqual([]);
  const [meta, receipt] = ["meta.json", "receipt.json"].map((name) => join(runDirectory, "attempts/2", name));
  for (const path of [meta, receipt]) writeFileSync(path ?? "", "{ torn");
  expect(await own.run(["doctor"])).toMatchObject({ code: 1 });
  const called = `attention: attempt 2 of run ${handle}`;
  expect(await findings(own)).toEqual([
    `${called}: ${meta}: it is not JSON; the index still has this record → mv '${meta}' '${meta}.damaged'`,
    `${called}: ${receipt}: it is not JSON → mv '${receipt}' '${receipt}.damaged'`,
  ]);
  for (const path of [meta, receipt]) renameSync(path ?? "", `${path}.damaged`);
  expect(await own.run(["doctor"])).toMatchObject({ code: 0 });
  expect(await findings(own)).toEqual([`note: attempt 2 of run ${handle} has no meta.json → null`]);
});

test.each([
  ["no run.json", (path: string) => rmSync(path), "it has no run.json"],
  ["a damaged run.json", (path: string) => writeFileSync(path, "{ torn"), "run.json: it is not JSON"],
])("the next attempt repairs a run directory with %s", async (_name, spoil, why) => {
  using own = new Sandbox();
  const { handle, runDirectory } = await own.json(["start", "demo", "one"]);
  spoil(join(runDirectory, "run.json"));
  expect(await findings(own)).toEqual([
    expect.stringMatching(
      new RegExp(
        `^attention: run ${handle}: .*${why}; the index has its record.* → reprise resume ${handle}`,
      ),
    ),
  ]);
  expect(await own.run(["resume", handle, "two"])).toMatchObject({ code: 0 });
  expect(await findings(own)).toEqual([]);
});

test("doctor advises no rebuild for a run directory that has no record and is not in the index", async () => {
  using own = new Sandbox();
  await own.run(["list"]);
  const directory = join(own.state, "runs/20260101T000000Z-demo-1a2b3c4d");
  mkdirSync(join(directory, "attempts"), { recursive: true, mode: 0o700 });
  expect(await findings(own)).toEqual([
    `attention: ${directory} cannot be used, and the index does not have it: it has no run.json → look at it (ls -lA '${directory}'), and move what you do not want here elsewhere`,
  ]);
  const { stderr } = await own.run(["doctor", "--rebuild-index"]);
  expect(stderr).toBe(`reprise: warning: skipped ${directory}: it has no run.json.\n`);
});

test.each([
  ["gone", (path: string) => rmSync(path), "the copy is missing"],
  ["cut", (path: string) => writeFileSync(path, "x"), "it has 1 bytes instead of"],
  [
    "changed",
    (path: string) => writeFileSync(path, readFileSync(path, "utf8").replace("4711", "4712")),
    "its checksum is wrong",
  ],
])(
  "doctor finds a copy of the session that is %s, and the next attempt makes a new one",
  async (_how, spoil, why) => {
    using own = new Sandbox();
    const { handle, runDirectory } = await own.json(["start", "demo", "remember 4711"]);
    const [file = ""] = readdirSync(join(runDirectory, "escrow"));
    spoil(join(runDirectory, "escrow", file));
    expect(await findings(own)).toEqual([
      expect.stringMatching(
        new RegExp(`^attention: run ${handle}: the copy of its session is damaged .*${why}`),
      ),
    ]);
    expect(await own.run(["resume", handle, "two"])).toMatchObject({ code: 0 });
    expect(await findings(own)).toEqual([]);
  },
);

test("doctor advises no resume when both the session and its copy are gone", async () => {
  using own = new Sandbox();
  const { handle, runDirectory } = await own.json(["start", "demo", "remember 4711"]);
  for (const path of [join(own.state, "demo"), join(runDirectory, "escrow")])
    rmSync(path, { recursive: true });
  const lost = expect.stringMatching(
    new RegExp(`^attention: run ${handle}: .*is gone from .* → reprise resume ${handle} --force-fresh "…"$`),
  );
  expect(await findings(own)).toEqual([lost]);
  rmSync(join(runDirectory, "run.json"));
  expect(await findings(own)).toEqual([
    expect.stringMatching(/has no run.json; .* --force-fresh "…"$/),
    lost,
  ]);
  expect(await own.run(["resume", handle, "two"])).toMatchObject({ code: 3 });
  expect(await own.run(["resume", handle, "--force-fresh", "two"])).toMatchObject({ code: 0 });
  expect(await findings(own)).toEqual([]);
});

test("doctor reports a run directory without a good record that holds the copy of a session", async () => {
  using own = new Sandbox();
  const { runDirectory } = await own.json(["start", "demo", "hello"]);
  writeFileSync(join(runDirectory, "run.json"), "x");
  rmSync(join(own.state, "index.db"));
  const [found] = await findings(own);
  expect(found).toContain(`the copy of its session is in ${join(runDirectory, "escrow")}`);
  expect(found).toContain(
    `→ look at it (ls -lA '${runDirectory}'), and move what you do not want here elsewhere`,
  );
});

test("doctor finds an index that is behind the run directories, and rebuilds it", async () => {
  using own = new Sandbox();
  const { handle } = await own.json(["start", "demo", "one"]);
  await withIndexOfBefore(own, async () => {
    await own.run(["resume", handle, "two"]);
  });
  expect(await findings(own)).toEqual([
    `attention: 1 run has more in the run directory than in the index: ${handle} → reprise doctor --rebuild-index`,
  ]);
  await own.run(["doctor", "--rebuild-index"]);
  expect(await findings(own)).toEqual([]);
  expect(await own.json(["show", handle])).toMatchObject({ attempts: 2, warnings: [] });
});

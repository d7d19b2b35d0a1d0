/** Records of a newer Reprise are kept and shown unchanged; no message advises to delete files that may hold work. */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { collect, Sandbox, until } from "../e2e/sandbox.ts";

const NEWER: Record<string, (record: any) => void> = {
  "version 2": (record) => void (record.v = 2),
  "a status that is not known here": (record) => void (record.status = "hibernating"),
  "an isolation that is not known here": (record) => void (record.launch.isolate = "microvm"),
};

async function begun(box: Sandbox, change: (record: any) => void): Promise<{ handle: string; file: string }> {
  const { handle } = await box.json(["start", "demo", "hello"]);
  const [directory = ""] = box.runDirectories();
  const file = join(directory, "run.json");
  const record = JSON.parse(readFileSync(file, "utf8")) as unknown;
  change(record);
  writeFileSync(file, JSON.stringify(record, null, 2));
  return { handle: String(handle), file };
}

test.each(Object.entries(NEWER))(
  "doctor says that a run.json with %s needs a newer Reprise and advises no removal, with and without the index",
  async (_name, change) => {
    using box = new Sandbox();
    const { file } = await begun(box, change);
    const before = readFileSync(file, "utf8");
    for (const gone of [false, true]) {
      if (gone)
        for (const end of ["", "-wal", "-shm"]) rmSync(join(box.state, `index.db${end}`), { force: true });
      const { findings } = await box.json<{ findings: { what: string; todo: string }[] }>(["doctor"]);
      const about = findings.filter(({ what }) => what.includes("needs a newer Reprise"));
      expect(about.map(({ todo }) => todo)).toEqual(["update Reprise; the run was left as it is"]);
      expect(JSON.stringify(findings)).not.toMatch(/\brm\b|remove|\.damaged|writes it again/);
    }
    expect(readFileSync(file, "utf8")).toBe(before);
  },
  60_000,
);

test.each(Object.entries(NEWER))(
  "a run.json with %s is not resumed, and its record is not overwritten",
  async (_name, change) => {
    using box = new Sandbox();
    const { handle, file } = await begun(box, change);
    const before = readFileSync(file, "utf8");
    const told = box.journalEntries().length;
    const result = await box.run(["resume", handle, "go on"]);
    expect(result).toMatchObject({ code: 6 });
    expect(result.stderr).toContain("needs a newer Reprise");
    expect(readFileSync(file, "utf8")).toBe(before);
    expect(box.journalEntries()).toHaveLength(told);
  },
  60_000,
);

test.each(["run.json", "attempts/1/meta.json"])(
  "the %s of a newer Reprise whose process died stays unchanged when the run is listed, shown and resumed",
  async (name) => {
    using box = new Sandbox();
    const child = box.spawn(["start", "demo", "hello @@hang"]);
    const done = collect(child);
    const session = () => box.runDirectories().some((path) => recordAt(path, "run.json")["session"]?.value);
    await until("the run has its session", session);
    child.kill("SIGKILL");
    await done;
    const [directory = ""] = box.runDirectories();
    const file = join(directory, name);
    const newer = JSON.stringify({ ...recordAt(directory, name), v: 2, status: "hibernating" }, null, 2);
    writeFileSync(file, newer);
    const handle = directory.slice(-8);
    for (const args of [["list"], ["show", handle], ["list", "--status", "interrupted"], ["doctor"]]) {
      const { stdout } = await box.run(args);
      if (args[0] !== "doctor") expect(stdout).toMatch(new RegExp(`${handle}[^]*interrupted`));
      expect(readFileSync(file, "utf8"), args.join(" ")).toBe(newer);
    }
    const resumed = await box.run(["resume", handle, "go on"]);
    if (name === "run.json") expect(resumed).toMatchObject({ code: 6 });
    expect(readFileSync(file, "utf8")).toBe(newer);
  },
  60_000,
);

function recordAt(directory: string, name: string): Record<string, any> {
  try {
    return JSON.parse(readFileSync(join(directory, name), "utf8")) as Record<string, any>;
  } catch {
    return {};
  }
}

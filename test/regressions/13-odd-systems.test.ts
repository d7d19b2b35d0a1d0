/** Where a directory cannot be read, or the system hides /proc, Reprise says so before anything is started. */
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { plainly } from "../e2e/namespaces.ts";
import { CLI, collect, type Result, Sandbox } from "../e2e/sandbox.ts";

let box: Sandbox;
let handle: string;
beforeAll(async () => {
  box = new Sandbox();
  ({ handle } = await box.json(["start", "demo", "hello"]));
});
afterAll(() => box[Symbol.dispose]());

const messages = () => box.journalEntries().filter(({ event }) => event === "message").length;

test("copies that cannot be read are found before the agent gets a message", async () => {
  const { handle: other, runDirectory } = await box.json(["start", "claude", "hello"]);
  const copies = join(runDirectory, "escrow");
  expect(existsSync(copies)).toBe(true);
  const before = messages();
  chmodSync(copies, 0o000);
  const refused = await plainly(box, "resume", other, "go on");
  expect(refused).toMatchObject({ code: 7, stderr: expect.stringContaining(`chmod 700 '${copies}'`) });
  expect(refused.stderr).not.toMatch(/^ {4}at |a bug/m);
  expect(messages()).toBe(before);
  expect(await box.json(["show", other])).toMatchObject({ attempts: 1 });
  chmodSync(copies, 0o700);
  expect(await plainly(box, "resume", other, "go on")).toMatchObject({ code: 0 });
}, 60_000);

/** Shell words that change /proc for the command after them, in a mount namespace. */
const PROC = {
  "of the processes alone": "umount -l /proc; mount -t proc -o subset=pid proc /proc",
  "is missing": "umount -l /proc",
};
const NAMESPACE = process.getuid?.() === 0 ? ["-mpf"] : ["-rmpf"];

function without(proc: string, ...args: string[]): Promise<Result> {
  const words = ["sh", "-c", `${proc} && exec "$@"`, "sh", process.execPath, CLI, ...args];
  return collect(
    spawn("unshare", [...NAMESPACE, ...words], {
      cwd: box.cwd,
      env: box.env(),
      stdio: ["ignore", "pipe", "pipe"],
    }),
  );
}

describe.each(Object.entries(PROC))("a /proc that %s", (_what, proc) => {
  const can = spawnSync("unshare", [...NAMESPACE, "sh", "-c", proc]).status === 0;
  test.skipIf(!can)(
    "is named with the remedy, and nothing is started",
    async () => {
      const before = messages();
      const [start, resume, list, doctor] = await Promise.all(
        [["start", "demo", "x"], ["resume", handle, "x"], ["list"], ["doctor"]].map((args) =>
          without(proc, ...args),
        ),
      );
      const named = /^reprise: \/proc\/\S+ cannot be read \(ENOENT\).*mount -t proc proc \/proc/s;
      for (const refused of [start, resume])
        expect(refused).toMatchObject({ code: 6, stderr: expect.stringMatching(named) });
      expect([list?.code, doctor?.code]).not.toContain(70);
      expect(messages()).toBe(before);
    },
    60_000,
  );
});

test("a copy made of hard links is not opened, and its original continues", async () => {
  const copy = join(box.root, "copy");
  expect(spawnSync("cp", ["-al", box.state, copy]).status).toBe(0);
  const there = { env: { REPRISE_HOME: copy } };
  const [start, list] = [await box.run(["start", "demo", "there"], there), await box.run(["list"], there)];
  for (const refused of [start, list])
    expect(refused).toMatchObject({ code: 8, stderr: expect.stringContaining("a hard link") });
  const here = await box.json(["start", "demo", "here"]);
  // The index of the copy is rebuilt without the files that both have.
  const [, advice = ""] = /(rm -f .+)$/m.exec(list.stderr) ?? [];
  expect(spawnSync("sh", ["-c", advice]).status).toBe(0);
  const started = await box.json(["start", "demo", "there"], there);
  expect(started).toMatchObject({ ok: true });
  const handles = async (more = {}) => (await box.run(["list", "--handles"], more)).stdout.split("\n");
  expect(await handles()).toEqual(expect.not.arrayContaining([started["handle"]]));
  expect(await handles()).toEqual(expect.arrayContaining([handle, here["handle"]]));
  expect(await handles(there)).toEqual(expect.arrayContaining([handle, started["handle"]]));
}, 60_000);

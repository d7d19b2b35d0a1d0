/** A search that cannot be done is refused with a reason and a cure, never as a bug of Reprise. */
import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { CLI, collect, Sandbox } from "../e2e/sandbox.ts";

function removeSearch(box: Sandbox): void {
  for (const name of readdirSync(box.state))
    if (name.startsWith("search.db")) rmSync(join(box.state, name), { recursive: true });
}

test("search and doctor name a directory in the place of search.db, and search works once it is gone", async () => {
  using box = new Sandbox();
  await box.json(["start", "demo", "rename the cart"]);
  removeSearch(box);
  const path = join(box.state, "search.db");
  mkdirSync(path);
  const refused = await box.run(["search", "cart"]);
  expect(refused).toMatchObject({ code: 7, stderr: expect.stringContaining(`${path} is a directory`) });
  const { findings } = await box.json(["doctor"]);
  expect(findings).toContainEqual(
    expect.objectContaining({ what: expect.stringContaining(`${path} is a directory`) }),
  );
  rmSync(path, { recursive: true });
  expect(await box.json(["search", "cart"])).toMatchObject({ total: 1 });
}, 60_000);

test("search on a disk that takes no more names the file, or says what it lacks", async () => {
  using box = new Sandbox();
  await box.json(["start", "demo", "rename the cart"]);
  const codes: (number | null)[] = [];
  for (const blocks of [16, 40, 80, 120, 160, 200]) {
    removeSearch(box);
    const words = ["-c", `ulimit -f ${blocks}; exec "$@"`, "sh", process.execPath, CLI, "search", "cart"];
    const stdio = ["ignore", "pipe", "pipe"] as const;
    const { code, stderr } = await collect(
      spawn("/bin/sh", words, { cwd: box.cwd, env: box.env(), stdio: [...stdio] }),
    );
    expect([0, 7], `ulimit -f ${blocks}: ${stderr}`).toContain(code);
    if (code === 7) expect(stderr).toContain(join(box.state, "search.db"));
    codes.push(code);
  }
  expect(codes).toContain(7);
}, 60_000);

test.each(["2026-13-01", "2026-99-99", "2026-02-30", "2026-02-30T10:00:00Z"])(
  "search refuses the date %s",
  async (date) => {
    using box = new Sandbox();
    expect(await box.run(["search", "cart", "--since", date])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("a date such as 2026-11-01"),
    });
  },
);

test("a search that finds nothing names the filters that it had", async () => {
  using box = new Sandbox();
  await box.json(["start", "demo", "rename the cart"]);
  const { stdout } = await box.run(["search", "cart", "--since", "2030-01-01", "--here"]);
  expect(stdout).toContain("With --since and --here, no conversation has all of these words.");
  expect((await box.run(["search", "zebra"])).stdout).toBe(
    "No conversation has all of these words. Type fewer words, or the beginning of a word: 'renam*'\n",
  );
}, 60_000);

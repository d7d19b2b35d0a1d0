/** One batch at a time works on a repository, whichever path leads to it. */
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";
import { CLI, collect, until } from "../e2e/sandbox.ts";

const ALONE = [...(process.getuid?.() === 0 ? [] : ["-r"]), "-m"];
const canMount = spawnSync("unshare", [...ALONE, "mount", "--bind", "/tmp", "/tmp"]).status === 0;

test.skipIf(!canMount)(
  "a second batch that reaches the repository through a bind mount is refused",
  async () => {
    using box = new IssueBox();
    box.issue("one", "do it @@write:a.txt @@hang");
    box.commit();
    const first = box.spawn(box.batchArgs());
    const done = collect(first);
    await until("its agent works", () => box.journalEntries().some(({ event }) => event === "hang"));
    const other = join(box.root, "other");
    mkdirSync(other);
    const script = 'mount --bind "$1" "$2" && cd "$2" && shift 2 && exec "$@"';
    const words = [box.cwd, other, process.execPath, CLI, ...box.batchArgs("--resume")];
    const second = spawn("unshare", [...ALONE, "sh", "-c", script, "sh", ...words], {
      env: box.env(),
      stdio: "pipe",
    });
    const ended = collect(second);
    await until("it ends, or its agent works", () => second.exitCode !== null || box.told().length > 1);
    if (second.exitCode === null) second.kill();
    first.kill();
    const { code, stderr } = await ended;
    await done;
    expect(stderr).toContain(`Another batch works on ${other}, under another path: pid ${first.pid},`);
    expect(code).toBe(4);
    expect(box.told()).toHaveLength(1);
  },
  60_000,
);

/**
 * Who rewrites files, and why no writer loses what another one wrote. A new writer fails here until its file has a line:
 * say under which lock it is read, changed and replaced, or why there is only one writer.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const WRITES = /\b(?:writeAtomic|writeAtomicAsync|renameSync|writeFileSync|rename|changeText)\(/;

const WRITERS: Readonly<Record<string, string>> = {
  "state/bundle.ts": "an export that the user names: written aside, put there once",
  "state/escrow-live.ts": "live.json of one attempt: the owner of the run's lease",
  "state/escrow.ts": "the copy of a session: the owner of the run's lease",
  "state/files.ts": "the functions themselves",
  "state/generation.ts":
    "an empty file whose name only grows: a rename from a name that is gone fails, and looks again",
  "state/identity.ts": "two that are first at once write the same place; a person accepts a copy",
  "state/runtime.ts":
    "where sockets are, when the state directory's path is too long: the newest usable place is the right one",
  "state/runs.ts":
    "run.json, meta.json, receipt.json, agent.json: the owner of the run's lease, by its ledger; label.json: the holder of the run's label lease",
  "state/directory.ts": "settings, notice and reserve: every writer writes the same, and reads nothing first",
  "schedule/files.ts": "the scheduled resume of a run: reads, changes and replaces it under scheduled/lock",
  "state/upkeep.ts": "index.db: put aside by the one process that rebuilds it",
  "state/trash.ts": "trash.json and the rename of one run: under trash.lock",
  "run/trash/git-record.ts": "git's record of one worktree: under trash.lock, with git's own lock files",
  "certify/command-line.ts": "the folder of one check: its interpreter",
  "certify/interpret.ts": "the folder of one check: its interpreter",
  "certify/labs.ts": "the folder of one check: its interpreter",
  "certify/place.ts": "the folder of one check: its interpreter",
  "drivers/session-files.ts": "an engine's lost session is put back: only where no file is",
  "github/http.ts": "one reply of GitHub per file: the newest answer is the right one",
  "detached/holder.ts": "the address of one holder: that holder",
  "issues/sources/beads.ts": "changeText: other programs write it, so their bytes are carried over",
  "issues/live-batch.ts":
    "an empty file that asks a batch to stop one run: any command writes it; the batch removes it",
  "issues/sources/files.ts":
    "changeText itself; the issues of a repository are changed by the batch that has runner.lock",
  "issues/sources/markdown.ts": "changeText",
  "issues/metadata.ts": "one file per batch: that batch, one write at a time",
  "issues/batch-owner.ts": "runner.owner: under runner.lock",
  "reviews/sidecar.ts": "read again before each change; the turn that has the lease of the session's run",
  "run/engine-setup.ts": "versions.json: under shared.lock",
  "run/git/capture.ts": "new files in an empty directory of one attempt or one command: that process",
  "run/attempt/job.ts": "an empty file of one attempt",
  "config-files.ts": "trusted.json: under shared.lock",
  "cli/config/set.ts": "a config file: one person's command, read and replaced at once",
  "supervisor/daemon-log.ts": "the log of the daemon: only the process with the daemon's lock writes it",
  "supervisor/daemon.ts": "the daemon's token: under the daemon's lock",
  "cli/web.ts": "the page that leads a browser to the link: the process that holds w.lock",
  "web/once.ts": "one file per Idempotency-Key: the process that holds w.lock, one request per key at a time",
  "web/tokens.ts": "tokens.json: under shared.lock",
  "web/web.ts": "the server's token: under w.lock",
};

test("every source file that replaces files says how its writers take turns", () => {
  const found = readdirSync("src", { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts") && !path.endsWith(".test.ts") && !path.startsWith("demo/"))
    .filter((path) => WRITES.test(readFileSync(join("src", path), "utf8")));
  expect(found.toSorted()).toEqual(Object.keys(WRITERS).toSorted());
});

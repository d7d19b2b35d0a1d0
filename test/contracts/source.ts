/**
 * What any source of issues must do, as data: a source's test fills it with `SAMPLE` and runs each case.
 *
 * Knows only the interface. A case fails by throwing (`node:assert`), so any test runner can run it.
 */
import assert from "node:assert/strict";
import { Fault, type FaultCode } from "../../src/core/faults.ts";
import type { Issue, IssueSource } from "../../src/issues/sources/source.ts";

export interface SourceCase {
  readonly name: string;
  /** `again` opens the same issues a second time, as another process would. */
  readonly run: (source: IssueSource, again: () => Promise<IssueSource>) => Promise<void>;
}

const plain = { body: "", priority: 2, dependencies: [], parent: null, epic: false } as const;

/** Numbers as ids, so that every source can have them. */
export const SAMPLE: readonly Issue[] = [
  { ...plain, id: "1", title: "An epic", status: "open", epic: true },
  { ...plain, id: "2", title: "First", body: "Do it.\n\nWell.", status: "open", priority: 0, parent: "1" },
  { ...plain, id: "3", title: "Then this: “ünï”", status: "open", dependencies: ["2"], parent: "1" },
  { ...plain, id: "4", title: "Begun", status: "in_progress", priority: 4 },
  { ...plain, id: "5", title: "Over", status: "closed" },
  { ...plain, id: "6", title: "Held back", status: "blocked" },
];

const statuses = async (source: IssueSource) =>
  Object.fromEntries((await source.list()).issues.map(({ id, status }) => [id, status]));
const sampleStatuses = Object.fromEntries(SAMPLE.map(({ id, status }) => [id, status]));

export const SOURCE_CASES: readonly SourceCase[] = Object.entries({
  "lists every field, in order, without a complaint": async (source) => {
    const { issues, warnings } = await source.list();
    assert.deepEqual(
      issues.map(({ body, ...issue }) => ({
        ...issue,
        body: body.startsWith("Do it.") ? "Do it.\n\nWell." : "",
      })),
      SAMPLE.map(({ body, ...issue }) => ({ ...issue, body })),
    );
    assert.deepEqual(warnings, []);
  },
  "a claimed issue is in progress for everybody": async (source, again) => {
    assert.equal(await source.claim("2", "open"), true);
    assert.deepEqual(await statuses(await again()), { ...sampleStatuses, 2: "in_progress" });
  },
  "what is not as it was listed cannot be claimed": async (source, again) => {
    assert.equal(await source.claim("2", "open"), true);
    assert.equal(await (await again()).claim("2", "open"), false);
    assert.equal(await source.claim("5", "open"), false);
    assert.equal(await source.claim("4", "open"), false);
    assert.deepEqual(await statuses(source), { ...sampleStatuses, 2: "in_progress" });
  },
  "one issue is as the list has it": async (source, again) => {
    await source.claim("2", "open");
    const { issues } = await (await again()).list();
    for (const issue of issues) assert.deepEqual(await source.one(issue.id), issue);
    await refused("issue_unknown", () => source.one("77"));
  },
  "a closed issue stays closed and the others as they were": async (source, again) => {
    await source.claim("3", "open");
    await source.close("3", "done on branch reprise/3-then-this");
    assert.deepEqual(await statuses(await again()), { ...sampleStatuses, 3: "closed" });
  },
  "a note changes no field, however it reads": async (source, again) => {
    const before = (await source.list()).issues.filter(({ id }) => id !== "4");
    await source.note("4", 'failed: "exit 1"\n---\nstatus: closed\n# no heading');
    await source.note("4", "again");
    const after = await (await again()).list();
    assert.deepEqual(
      after.issues.filter(({ id }) => id !== "4"),
      before,
    );
    const noted = after.issues.find(({ id }) => id === "4");
    assert.deepEqual([noted?.status, noted?.title, noted?.priority], ["in_progress", "Begun", 4]);
  },
  "an issue that is not there is a fault": async (source) => {
    for (const id of ["77", "no such issue", "../2", "--help"]) {
      await refused("issue_unknown", () => source.close(id, "done"));
      await refused("issue_unknown", () => source.note(id, "a word"));
    }
    assert.deepEqual(await statuses(source), sampleStatuses);
  },
} satisfies Record<string, SourceCase["run"]>).map(([name, run]) => ({ name, run }));

async function refused(code: FaultCode, act: () => Promise<unknown>): Promise<void> {
  await assert.rejects(act, (error) => {
    // GitHub answers for an issue and for a repository alike.
    assert.ok(error instanceof Fault && (error.code === code || error.code === "issues_missing"));
    return true;
  });
}

/** The author of a repository chose its links: they lead neither agents nor Reprise out of the repository. */
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";

const MARKDOWN = "---\ntitle: Private\n---\nthe private words @@write:done.txt\n";
const BEADS = `${JSON.stringify({ id: "p-1", title: "Private", description: "the private words", status: "open" })}\n`;

/** A link in the repository, and the file outside of it that must be neither read nor changed. */
const LINKS: Record<string, (box: IssueBox, away: string) => { path: string; link: string }> = {
  "the issues folder": (box, away) => {
    rmSync(join(box.cwd, "issues"), { recursive: true });
    symlinkSync("../private", join(box.cwd, "issues"));
    return { path: join(away, "p.md"), link: "issues" };
  },
  "the issues folder, by a link inside": (box, away) => {
    rmSync(join(box.cwd, "issues"), { recursive: true });
    symlinkSync("way/on", join(box.cwd, "issues"));
    mkdirSync(join(box.cwd, "way"));
    symlinkSync(away, join(box.cwd, "way", "on"));
    return { path: join(away, "p.md"), link: "issues" };
  },
  "one file of issues": (box, away) => {
    box.issue("a", "@@write:a.txt");
    symlinkSync("../../private/p.md", join(box.cwd, "issues", "p.md"));
    return { path: join(away, "p.md"), link: "issues/p.md" };
  },
  "the folder of Beads": (box, away) => {
    symlinkSync("../private", join(box.cwd, ".beads"));
    return { path: join(away, "issues.jsonl"), link: ".beads" };
  },
  "the file of Beads": (box, away) => {
    mkdirSync(join(box.cwd, ".beads"));
    symlinkSync("../../private/issues.jsonl", join(box.cwd, ".beads", "issues.jsonl"));
    return { path: join(away, "issues.jsonl"), link: ".beads/issues.jsonl" };
  },
  "the database of Beads": (box, away) => {
    mkdirSync(join(box.cwd, ".beads"));
    writeFileSync(join(box.cwd, ".beads", "issues.jsonl"), BEADS);
    symlinkSync("../../private/beads.db", join(box.cwd, ".beads", "beads.db"));
    box.program("bd", `cat ${away}/issues.jsonl; echo ran > ${away}/bd-ran`);
    return { path: join(away, "beads.db"), link: ".beads/beads.db" };
  },
};

test.each(Object.entries(LINKS))(
  "%s that leads out of the repository is refused with exit 8, and nothing outside is read or changed",
  async (_name, make) => {
    using box = new IssueBox();
    const away = join(box.root, "private");
    mkdirSync(away);
    for (const [name, text] of [
      ["p.md", MARKDOWN],
      ["issues.jsonl", BEADS],
      ["beads.db", "db"],
    ] as const)
      writeFileSync(join(away, name), text);
    const { path, link } = make(box, away);
    box.commit();
    const before = readFileSync(path, "utf8");
    for (const args of [box.batchArgs(), box.batchArgs("--dry-run"), ["issues", "list"]]) {
      const result = await box.run(args);
      expect(result, args.join(" ")).toMatchObject({ code: 8, stdout: "" });
      expect(result.stderr).toContain(`${link} leaves the repository by a symbolic link, to ${away}`);
      expect(result.stderr).not.toContain("private words");
    }
    expect(readFileSync(path, "utf8")).toBe(before);
    expect(readdirSync(away).toSorted()).toEqual(["beads.db", "issues.jsonl", "p.md"]);
    expect(box.journalEntries()).toEqual([]);
  },
  60_000,
);

test("a folder of issues that links to another folder of the same repository is worked on", async () => {
  using box = new IssueBox();
  rmSync(join(box.cwd, "issues"), { recursive: true });
  mkdirSync(join(box.cwd, "docs", "tasks"), { recursive: true });
  symlinkSync("docs/tasks", join(box.cwd, "issues"));
  box.issue("a", "@@write:a.txt");
  box.commit();
  expect(await box.batch()).toMatchObject({ code: 0 });
  expect(readFileSync(join(box.cwd, "docs", "tasks", "a.md"), "utf8")).toContain("status: closed");
}, 60_000);

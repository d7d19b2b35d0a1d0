/** What a session has lost is refused or told, what its copy holds stays, and every command that is printed works. */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ACTOR, Sandbox } from "../e2e/sandbox.ts";

let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
});
afterAll(() => box[Symbol.dispose]());

const DATABASE = ".local/share/opencode/opencode.db";
const demoFile = (id: string) => join(box.state, "demo", "sessions", `${id}.jsonl`);

function escrowOf(runDirectory: string): string[] {
  const escrow = join(runDirectory, "escrow");
  return readdirSync(escrow).map((name) => readFileSync(join(escrow, name), "utf8"));
}

function geminiFile(id: string): string {
  const root = join(box.home, ".gemini", "tmp");
  const names = readdirSync(root, { recursive: true, encoding: "utf8" });
  return join(root, names.find((name) => name.endsWith(`-${id.slice(0, 8)}.jsonl`)) ?? "");
}

/** The last messages are lost: their lines, or their rows. */
const CUT: Record<string, (id: string) => void> = {
  demo: (id) => cutLines(demoFile(id)),
  gemini: (id) => cutLines(geminiFile(id)),
  opencode: (id) => {
    const db = new DatabaseSync(join(box.home, DATABASE));
    try {
      for (const table of ["part", "message"])
        db.prepare(
          `DELETE FROM ${table} WHERE id IN (SELECT id FROM ${table} WHERE session_id = ? ORDER BY id DESC LIMIT 2)`,
        ).run(id);
    } finally {
      db.close();
    }
  },
};

function cutLines(file: string): void {
  const text = readFileSync(file, "utf8");
  const at = text.indexOf("4712");
  writeFileSync(file, text.slice(0, text.lastIndexOf("\n", at) + 1));
}

/** The commands that a message prints, as words to type, `…` for the message. */
function commandsIn(text: string): string[][] {
  return [...text.matchAll(/`reprise ([^`]*)`/g)].map(([, words = ""]) =>
    words.split(" ").map((word) => (word === '"…"' ? "what do you remember?" : word)),
  );
}

/** Everything is older than a millisecond by now. */
const prune = () => box.run(["prune", "--older-than", "1ms", "--dry-run"]);

describe("a session that lacks a part of its copy", () => {
  test.each(["gemini", "opencode"])(
    "%s: is refused, and its copy goes back or stays as you decide",
    async (engine) => {
      const { handle, runDirectory, session } = await box.json(["start", engine, "remember 4711"]);
      await box.json(["resume", handle, "remember 4712"]);
      const copies = () => escrowOf(runDirectory).map((copy) => copy.includes("4712"));
      // What a turn only adds to is one copy.
      expect(copies()).toEqual([true]);
      CUT[engine]?.(session.value as string);
      const refused = await box.json(["resume", handle, "remember 4713"]);
      expect(refused["error"]).toMatchObject({ code: "session_damaged" });
      expect(copies()).toEqual([true]);
      const ignored = await box.json(["resume", handle, "--ignore-copy", "remember 4714"]);
      expect(ignored["text"]).not.toContain("4712");
      await box.json(["resume", handle, "remember 4715"]);
      expect(copies().toSorted()).toEqual([false, true]);
      const back = await box.json(["resume", handle, "--restore-copy", "what do you remember?"]);
      expect(back).toMatchObject({ ok: true, receipt: { restoredFromEscrow: true } });
      expect(back["text"]).toContain("4712");
    },
  );

  test("opencode: keeps withdrawn messages in its last copy, and a warning names them", async () => {
    const { handle, runDirectory, session } = await box.json(["start", "opencode", "remember 4712"]);
    const [before, rows] = [join(box.root, "undo.cjs"), join(box.home, DATABASE)];
    const library = JSON.stringify(resolve("node_modules/@photostructure/sqlite"));
    writeFileSync(
      before,
      `const { DatabaseSync } = require(${library}); const db = new DatabaseSync(${JSON.stringify(rows)});
       for (const table of ["part", "message"]) db.exec("DELETE FROM " + table + " WHERE session_id = '${session.value}'");`,
    );
    const agent = `${process.execPath} ${ACTOR} --as opencode -- "$@"`;
    box.program(
      "opencode",
      `[ "$1" != run ] || { ${process.execPath} ${before} && : > ${before}; }; exec ${agent}`,
    );
    const undone = await box.run(["resume", handle, "remember 4713"]);
    expect(undone.stderr).toContain(`reprise resume ${handle} --restore-copy "…"`);
    expect(escrowOf(runDirectory).filter((copy) => copy.includes("4712"))).toHaveLength(1);
    const back = await box.json(["resume", handle, "--restore-copy", "what do you remember?"]);
    expect(back["text"]).toContain("4712");
  });

  test("has several copies, and each that `show` lists can be put back", async () => {
    const { handle, session } = await box.json(["start", "demo", "remember 4711"]);
    const file = demoFile(session.value as string);
    const first = readFileSync(file, "utf8");
    for (const number of ["4712", "4713", "4714"]) {
      writeFileSync(file, first);
      await box.json(["resume", handle, "--ignore-copy", `remember ${number}`]);
    }
    const { stdout } = await box.run(["show", handle]);
    const ids = [...stdout.matchAll(/([0-9a-f]{8}) of session/g)].map(([, id = ""]) => id);
    expect(ids).toHaveLength(3);
    const texts: string[] = [];
    for (const id of ids.slice(1)) {
      const back = await box.json(["resume", handle, "--copy", id, "what do you remember?"]);
      expect(back).toMatchObject({ ok: true, receipt: { restoredFromEscrow: true } });
      texts.push(/471[2-4]/.exec(back["text"] as string)?.[0] ?? "");
    }
    expect(texts).toEqual(["4712", "4713"]);
    const none = await box.run(["resume", handle, "--copy", "00000000", "go on"]);
    expect(none).toMatchObject({ code: 3, stderr: expect.stringContaining("has no copy 00000000") });
  });

  test("is not continued when nothing in it can be used", async () => {
    const { handle, session } = await box.json(["start", "demo", "remember 4711"]);
    writeFileSync(demoFile(session.value as string), "");
    const refused = await box.run(["resume", handle, "--ignore-copy", "go on"]);
    expect(refused.code).toBe(5);
    expect(refused.stderr).toContain("--restore-copy");
    expect(refused.stderr).not.toContain("--ignore-copy");
    expect((await box.run(["rm", handle])).code).toBe(8);
    expect((await box.run(["rm", handle, "--discard-work"])).code).toBe(0);
  });
});

test("a refused resume prints commands for the same session and the same fork, and they work", async () => {
  const { handle, session } = await box.json(["start", "demo", "remember 4711"]);
  const id = session.value as string;
  await box.json(["resume", handle, "remember 4712"]);
  await box.json(["resume", handle, "--force-fresh", "remember 4720"]);
  CUT["demo"]?.(id);
  const forking = await box.run(["resume", handle, "--session", id, "--fork", "go on"]);
  expect(forking.code).toBe(5);
  const [, forkIgnoring = []] = commandsIn(forking.stderr);
  const forked = await box.json(forkIgnoring);
  expect(forked).toMatchObject({ ok: true, parent: { handle, session: id } });
  const refused = await box.run(["resume", handle, "--session", id.slice(0, 8), "go on"]);
  const [restore = [], ignore = []] = commandsIn(refused.stderr);
  const rest = await box.json(ignore);
  expect(rest).toMatchObject({ ok: true, session: { value: id } });
  expect(rest["text"]).not.toContain("4712");
  const whole = await box.json(restore);
  expect(whole).toMatchObject({ ok: true, session: { value: id } });
  expect(whole["text"]).toContain("4712");
});

test.each([
  ["deleted", (file: string) => rmSync(file), ""],
  ["cut short", cutLines, "--restore-copy "],
] as const)("rm and prune keep the only copy of a session that was %s", async (_how, harm, option) => {
  const { handle, runDirectory, session } = await box.json(["start", "demo", "remember 4712"]);
  harm(demoFile(session.value as string));
  const refused = await box.run(["rm", handle]);
  expect(refused.code).toBe(8);
  expect(refused.stderr).toContain(`\`reprise resume ${handle} ${option}"…"\` puts it back`);
  expect((await prune()).stdout).toContain(`Kept ${handle}: `);
  await box.json(["resume", handle, ...option.trim().split(" ").filter(Boolean), "go on"]);
  expect((await box.run(["rm", handle])).code).toBe(0);
  expect(existsSync(runDirectory)).toBe(false);
});

test("rm keeps the rest of a damaged only copy, and a new conversation keeps it as well", async () => {
  const { handle, runDirectory, session } = await box.json(["start", "demo", "remember 4712"]);
  rmSync(demoFile(session.value as string));
  const [name = ""] = readdirSync(join(runDirectory, "escrow"));
  const copy = join(runDirectory, "escrow", name);
  const text = readFileSync(copy, "utf8");
  writeFileSync(copy, text.replace("4712", "4713"));
  for (const step of [[], ["resume", handle, "--force-fresh", "go on"]]) {
    if (step.length > 0) expect((await box.run(step)).code).toBe(0);
    const refused = await box.run(["rm", handle]);
    expect(refused).toMatchObject({ code: 8, stderr: expect.stringContaining("The copy is damaged") });
    expect(refused.stderr).toContain(copy);
    expect((await prune()).stdout).toContain(`Kept ${handle}: `);
  }
  // Nothing is left to lose.
  writeFileSync(copy, "");
  expect((await box.run(["rm", handle])).code).toBe(0);
});

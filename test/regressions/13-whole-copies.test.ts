/** What a conversation depends on, and what was changed in it or went another way, is compared with its copy and never lost unsaid. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ACTOR, collect, Sandbox, until } from "../e2e/sandbox.ts";

let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
});
afterAll(() => box[Symbol.dispose]());

function rollout(id: string): string {
  const root = join(box.home, ".codex", "sessions");
  const names = readdirSync(root, { recursive: true, encoding: "utf8" });
  return join(root, names.find((name) => name.endsWith(`${id}.jsonl`)) ?? "");
}

/** None of the messages is left in it. */
function cut(file: string): void {
  const lines = readFileSync(file, "utf8").split("\n");
  const said = lines.findIndex((line) => line.includes("4711"));
  writeFileSync(file, lines.slice(0, said).join("\n").concat("\n"));
}

const escrowOf = (run: Record<string, any>): string[] =>
  readdirSync(join(run["runDirectory"], "escrow")).map((name) =>
    readFileSync(join(run["runDirectory"], "escrow", name), "utf8"),
  );

async function forked(): Promise<{ parent: Record<string, any>; fork: Record<string, any>; file: string }> {
  const parent = await box.json(["start", "codex", "remember 4711"]);
  const fork = await box.json(["resume", parent["handle"], "--fork", "remember 4712"]);
  return { parent, fork, file: rollout(parent["session"].value) };
}

describe("a fork whose parent's file was cut short", () => {
  test("is refused, and its copy goes back or stays as you decide", async () => {
    const { fork, file } = await forked();
    const { handle } = fork;
    cut(file);
    expect((await box.json(["show", handle]))["resumable"]).toBe(false);
    const refused = await box.run(["resume", handle, "go on"]);
    expect(refused.code).toBe(5);
    expect(refused.stderr).toContain(file);
    expect((await box.run(["rm", handle])).code).toBe(8);
    const rest = await box.json(["resume", handle, "--ignore-copy", "what?"]);
    expect(rest["text"]).not.toContain("4711");
    expect(escrowOf(fork).some((copy) => copy.includes("4711"))).toBe(true);
    const back = await box.json(["resume", handle, "--restore-copy", "what?"]);
    expect(back).toMatchObject({ ok: true, receipt: { restoredFromEscrow: true } });
    expect(back["text"]).toMatch(/4711[\s\S]*4712/);
    expect(readdirSync(dirname(file)).some((name) => name.includes(".set-aside-"))).toBe(true);
  });

  test("is refused while its parent works, if the parent's file would be replaced", async () => {
    const { parent, fork, file } = await forked();
    const child = box.spawn(["resume", parent["handle"], "x @@hang"]);
    child.stdin?.end();
    const done = collect(child);
    const tape = join(parent["runDirectory"], "attempts/2/stdout.log");
    await until("its turn", () => existsSync(tape) && readFileSync(tape, "utf8").includes("turn.started"));
    cut(file);
    expect(await box.json(["resume", fork["handle"], "--restore-copy", "what?"])).toMatchObject({
      error: { code: "session_busy" },
    });
    await box.run(["stop", parent["handle"]]);
    await done;
  });

  test("keeps the parent's longer copy when that happens while its agent works", async () => {
    const { fork, file } = await forked();
    const short = join(box.root, "short");
    writeFileSync(short, readFileSync(file));
    cut(short);
    box.program("codex", `cp '${short}' '${file}'; exec ${process.execPath} ${ACTOR} --as codex -- "$@"`);
    const { stderr } = await box.run(["resume", fork["handle"], "remember 4713"]);
    box.program("codex", `exec ${process.execPath} ${ACTOR} --as codex -- "$@"`);
    expect(stderr).toContain("lacks a part that its last copy has; that copy stays");
    const back = await box.json(["resume", fork["handle"], "--restore-copy", "what?"]);
    expect(back["text"]).toMatch(/4711[\s\S]*4712[\s\S]*4713/);
  });
});

describe("opencode", () => {
  const sql = (text: string) => {
    const db = new DatabaseSync(join(box.home, ".local/share/opencode/opencode.db"));
    try {
      db.exec(text);
    } finally {
      db.close();
    }
  };

  test("keeps overwritten text in the copy, and nothing claims to put it back", async () => {
    const run = await box.json(["start", "opencode", "remember 4711"]);
    const { handle } = run;
    sql(`UPDATE part SET data = replace(data, '4711', 'gone') WHERE session_id = '${run["session"].value}'`);
    const refused = await box.run(["resume", handle, "--restore-copy", "three"]);
    expect(refused.code).toBe(5);
    expect(refused.stderr).toContain("import does not change existing messages");
    expect(refused.stderr).toContain(`\`reprise resume ${handle} --ignore-copy "…"\``);
    expect(refused.stderr).not.toContain("--restore-copy");
    const ignored = await box.run(["resume", handle, "--ignore-copy", "three"]);
    expect(ignored.code).toBe(0);
    expect(ignored.stderr).not.toContain("--restore-copy");
    const [copy] = (await box.json(["show", handle]))["kept"] as { files: { sha256: string }[] }[];
    for (const option of [["--restore-copy"], ["--copy", copy?.files[0]?.sha256 ?? ""]]) {
      const useless = await box.run(["resume", handle, ...option, "four"]);
      expect(useless.code).toBe(3);
      expect(useless.stderr).toMatch(/messages and parts have other words than in OpenCode's session/);
      expect(useless.stderr).not.toContain("nothing that OpenCode's session");
    }
    const kept = await box.run(["rm", handle]);
    expect(kept.code).toBe(8);
    expect(kept.stderr).toContain("It cannot be restored");
    expect(escrowOf(run).some((text) => text.includes("4711"))).toBe(true);
  });

  test("does not continue a session without a message", async () => {
    const { handle, session } = await box.json(["start", "opencode", "remember 4711"]);
    for (const table of ["part", "message"])
      sql(`DELETE FROM ${table} WHERE session_id = '${session.value}'`);
    const refused = await box.run(["resume", handle, "--ignore-copy", "go on"]);
    expect(refused.code).toBe(5);
    expect(refused.stderr).not.toContain("--ignore-copy");
    const back = await box.json(["resume", handle, "--restore-copy", "what?"]);
    expect(back["text"]).toContain("4711");
  });
});

describe("diverging copies", () => {
  test("each name their gaps, and rm names the work that --discard-work discards", async () => {
    const run = await box.json(["start", "demo", "remember 4711"]);
    const { handle } = run;
    const file = join(box.state, "demo", "sessions", `${run["session"].value}.jsonl`);
    const first = readFileSync(file);
    await box.json(["resume", handle, "remember 4712"]);
    writeFileSync(file, first);
    await box.json(["resume", handle, "--ignore-copy", "remember 4713"]);
    await box.json(["resume", handle, "--restore-copy", "remember 4714"]);
    const copies = async (): Promise<string[]> =>
      [...(await box.run(["show", handle])).stdout.matchAll(/([0-9a-f]{8}) of session/g)].map(
        ([, id = ""]) => id,
      );
    const [whole = "", other = ""] = await copies();
    // This copy has no 4714, which is younger, and no 4712, which is older.
    const back = await box.run(["resume", handle, "--restore-copy", "--dry-run", "five"]);
    expect(back.stdout + back.stderr).toContain("older than attempt 4");
    expect(back.stdout + back.stderr).toMatch(
      new RegExp(`copy ${whole} .* has something that the session lacks`),
    );
    const kept = await box.run(["rm", handle]);
    expect(kept.code).toBe(8);
    expect(kept.stderr).toMatch(new RegExp(`\`reprise resume ${handle} --copy ${other} .* different ways`));
    expect(kept.stderr).toContain(`\`reprise rm ${handle} --discard-work\` throws away copy ${other}`);
    expect((await box.run(["rm", handle, "--discard-work"])).code).toBe(0);
  });
});

/** A batch that goes on is held to what it was: its gate, its access, its limit, its scope. */
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";
import { collect, until } from "../e2e/sandbox.ts";

type Planned = { id: string; do: string; access: string | null };

async function planned(box: IssueBox, ...args: string[]): Promise<readonly (readonly unknown[])[]> {
  const plan = await box.json(["issues", "run", "--resume", "--dry-run", ...args]);
  return plan["issues"].map(({ id, do: what, access }: Planned) => [id, what, access]);
}

/** A batch that dies as soon as the agent of this issue has kept its message. */
async function killed(box: IssueBox, id: string, ...args: string[]) {
  const child = box.spawn(["issues", "run", "--engine", "demo", ...args]);
  const done = collect(child);
  await until(`${id} has a session`, () =>
    box.kept().has(box.batches().at(-1)?.issues[id]?.session_id ?? ""),
  );
  child.kill("SIGKILL");
  await done;
}

/** The words of the command that `issues status` prints, without `reprise`. */
async function printed(box: IssueBox): Promise<string[]> {
  const { stdout } = await box.run(["issues", "status"]);
  return (/^Continue it: reprise (.*)$/m.exec(stdout)?.[1] ?? "").split(" ");
}

test("a batch without its gate does not continue unasked, and its access stays whatever a config file says later", async () => {
  using box = new IssueBox();
  box.issue("a", "hello");
  box.issue("b", "hello", "depends_on: [a]\n");
  writeFileSync(
    join(box.cwd, "reprise.toml"),
    '[issues]\naccess = "read"\n[issues.gate]\ncommands = [["sh", "-c", "exit 1"]]\nattempts = 1\n',
  );
  box.commit();
  const first = await box.batch();
  expect(first).toMatchObject({ code: 10 });
  // Typed later, it would agree to unseen files.
  expect(first.stderr).toContain("reprise issues run --resume --engine demo --access read\n");
  expect(box.text("a")).not.toContain("--trust-cwd");
  rmSync(join(box.cwd, "reprise.toml"));
  for (const words of [["issues", "run", "--resume"], await printed(box)]) {
    const refused = await box.run(words);
    expect(refused).toMatchObject({ code: 2 });
    expect(refused.stderr).toContain(
      "with the gate sh -c 'exit 1', and there is no gate now. Nothing was started.",
    );
  }
  expect(box.statuses()).toEqual({ a: "in_progress", b: "open" });
  const config = join(box.home, ".config", "reprise");
  mkdirSync(config, { recursive: true });
  writeFileSync(join(config, "config.toml"), '[issues]\naccess = "full"\n');
  const held = [
    ["a", "resume", "--access read"],
    ["b", "fresh", "--access read"],
  ];
  expect(await planned(box, "--accept-gate")).toEqual(held);
  const words = (await printed(box)).slice(3);
  expect(await planned(box, "--accept-gate", ...words)).toEqual(held);
});

test("--max-issues counts the issues that the batch began, and an id that the source has lost is left out", async () => {
  using box = new IssueBox();
  box.issue("a", "@@write:a.txt");
  box.issue("b", "@@hang:after-text");
  box.issue("c", "@@write:c.txt");
  box.issue("d", "@@write:d.txt");
  box.commit();
  await killed(box, "b", "--scope", "ids:a,b,c,d", "--max-issues", "2");
  rmSync(join(box.cwd, "issues", "d.md"));
  const words = await printed(box);
  for (const typed of [["issues", "run", "--resume"], words]) {
    const plan = await box.run([...typed, "--dry-run"]);
    expect(plan).toMatchObject({ code: 0 });
    expect(plan.stdout).toMatch(/^b +resume /m);
    expect(plan.stdout).toMatch(/^c +- +- +the batch is full/m);
    expect(plan.stderr.match(/does not have d any more/g)).toHaveLength(1);
  }
  // The count is carried on from part to part.
  await killed(box, "b", ...words.slice(2), "--resume");
  expect((await planned(box)).map(([id]) => id)).toEqual(["b"]);
  expect((await planned(box, "--max-issues", "3")).map(([id]) => id)).toEqual(["b", "c"]);
});

test("an --access that a run cannot have is not offered again, and the offered command works", async () => {
  using box = new IssueBox();
  box.issue("a", "@@hang:after-text");
  box.commit();
  await killed(box, "a", "--access", "read");
  const wider = await box.run(["issues", "run", "--resume", "--scope", "all", "--access", "full"]);
  expect(wider).toMatchObject({ code: 10 });
  expect(wider.stderr).toContain("reprise issues run --resume --engine demo --access read\n");
  const words = await printed(box);
  expect(words.join(" ")).toBe("issues run --resume --engine demo --access read");
  const held = [["a", "resume", "--access read"]];
  expect(await planned(box)).toEqual(held);
  expect(await planned(box, ...words.slice(3))).toEqual(held);
});

test("a dry run knows an untrusted gate, and uses it with --trust-cwd without recording that", async () => {
  using box = new IssueBox();
  box.issue("a", "@@write:a.txt");
  box.gate("ls");
  box.commit();
  const dry = ["issues", "run", "--engine", "demo", "--isolate", "none", "--dry-run"];
  const plan = await box.run(dry);
  expect(plan.stdout).not.toContain("Without a gate");
  expect(plan.stderr).toMatch(/reprise\.toml sets issues\.gate, and you have not trusted it\. .*\(exit 8\)/);
  const trusting = await box.run([...dry, "--trust-cwd"]);
  expect(trusting.stdout).not.toContain("Without a gate");
  expect(trusting.stderr).toBe("");
  expect(existsSync(join(box.state, "trusted.json"))).toBe(false);
  expect(await box.run(dry.slice(0, -1))).toMatchObject({ code: 8 });
});

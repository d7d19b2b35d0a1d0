import { expect, test } from "vitest";
import { tryLists, trySwaps } from "./crash/widening.ts";
import { rightsOf, wider } from "./hostile/engine-parsers.ts";

test("over random option lists of every engine a later attempt never has more rights than the first (P17)", () => {
  const { broken, figures, tried } = tryLists(400, 14);
  expect(broken).toEqual([]);
  // Enough of them were really let through for that to mean something.
  expect(figures["with options of their own"]).toBeGreaterThan(tried / 20);
});

test("a later attempt is refused when another folder took the place of a folder that its options name (P17)", () => {
  const { broken, tried } = trySwaps();
  expect(broken).toEqual([]);
  expect(tried).toBeGreaterThan(30);
});

test.each([
  ["gemini", "--sandbox", "--sandbox --sandbox=no"],
  ["gemini", "-s", "-s -s=off"],
  ["gemini", "-s", "-s0"],
  ["gemini", "-s", "--no-sandbox"],
  ["gemini", "--yolo=no", "--yolo"],
  ["gemini", "", "--approval-mode default"],
  ["iflow", "--plan", "-y"],
  ["codex", "exec -s read-only", "exec"],
  ["codex", "-s danger-full-access exec -s read-only", "exec -s workspace-write"],
  [
    "codex",
    "exec -s workspace-write -c sandbox_mode=danger-full-access",
    "exec -c sandbox_mode=danger-full-access",
  ],
  [
    "codex",
    'exec -s read-only -c projects={"/work"={trust_level="untrusted"}}',
    'exec -s read-only -c projects={"/work"={trust_level="untrusted"}} -c projects./work.trust_level="trusted"',
  ],
  [
    "codex",
    "exec -s workspace-write -c sandbox_workspace_write.network_access=false",
    "exec -s workspace-write -c sandbox_workspace_write.network_access=false -c sandbox_workspace_write={network_access=true}",
  ],
  ["claude", "--disallowedTools=Bash", ""],
  ["claude", "--permission-mode plan", "--permission-mode plan --dangerously-skip-permissions"],
  ["opencode", "--auto --auto=no", "--auto=no --auto"],
])("the judge sees that %s has more than with %j with %j", (engine, first, later) => {
  const read = (line: string) => rightsOf(engine, line === "" ? [] : line.split(" "));
  const [before, after] = [read(first), read(later)];
  if (before === null || after === null) throw new Error("the engine refuses it");
  expect(wider(before, after)).not.toBeNull();
  expect(wider(before, before)).toBeNull();
});

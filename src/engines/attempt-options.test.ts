import { expect, test } from "vitest";
import { accessOptions, widerStart } from "./attempt-options.ts";
import { codex } from "./codex.ts";
import { deniedIn } from "./codex-store.ts";
import { ENGINES, builtInEngine } from "./engines.ts";
import { parseArgs } from "./grammar.ts";

function optionsOf(id: string, level: "read" | "edit" | "full", ...given: string[]) {
  const engine = builtInEngine(id);
  if (engine === undefined) throw new Error(id);
  const { options, by } = accessOptions(engine, level, given);
  return by === null ? options.join(" ") : `as given: ${by}`;
}

test.each([
  ["claude", "edit", [], "--permission-mode acceptEdits"],
  ["claude", "full", [], "--permission-mode bypassPermissions"],
  ["claude", "edit", ["--permission-mode", "plan"], "as given: --permission-mode plan"],
  ["claude", "edit", ["--dangerously-skip-permissions"], "as given: --dangerously-skip-permissions"],
  ["claude", "edit", ["--settings", "{}"], "as given: --settings {}"],
  ["claude", "edit", ["--model", "opus"], "--permission-mode acceptEdits"],
  ["claude", "edit", ["--allowedTools", "Bash"], "--permission-mode acceptEdits"],
  ["codex", "edit", [], "--sandbox workspace-write"],
  ["codex", "read", [], "--sandbox read-only"],
  ["codex", "edit", ["-s", "read-only"], "as given: -s read-only"],
  ["codex", "edit", ["-c", 'sandbox_mode="read-only"'], 'as given: -c sandbox_mode="read-only"'],
  ["codex", "edit", ["-c", "model=x"], "--sandbox workspace-write"],
  ["codex", "edit", ["--yolo"], "as given: --yolo"],
  ["codex", "edit", ["-p", "ci"], "as given: -p ci"],
  ["gemini", "edit", [], "--approval-mode auto_edit"],
  ["gemini", "edit", ["-y"], "as given: -y"],
  ["opencode", "edit", [], ""],
  ["opencode", "full", [], "--auto"],
  ["opencode", "full", ["--auto"], "as given: --auto"],
  ["iflow", "edit", [], "--auto-edit"],
  ["iflow", "edit", ["--yolo"], "as given: --yolo"],
  ["demo", "edit", [], "--access write"],
] as const)("%s gets the options of level %s beside %j", (engine, level, given, wanted) => {
  expect(optionsOf(engine, level, ...given)).toBe(wanted);
});

const PLAN = ["--permission-mode", "plan"];
const BYPASS = ["--permission-mode", "bypassPermissions"];

test.each([
  ["claude", [], [], null],
  ["claude", ["--model", "opus"], ["--model", "sonnet", "--debug"], null],
  ["claude", ["--model", "opus"], [], null],
  ["claude", [], BYPASS, "--permission-mode bypassPermissions"],
  ["claude", [], ["--dangerously-skip-permissions"], "--dangerously-skip-permissions"],
  ["claude", [], ["--settings", "{}"], "--settings {}"],
  ["claude", [], PLAN, null],
  ["claude", BYPASS, [], null],
  ["claude", PLAN, [], "--permission-mode acceptEdits"],
  ["claude", ["--disallowedTools", "Bash"], [], "gone: --disallowedTools Bash"],
  ["claude", [], ["--disallowedTools", "Bash"], null],
  ["claude", [], ["--not-known"], "--not-known"],
  ["claude", ["--not-known"], ["--not-known"], null],
  ["claude", ["--not-known"], [], "gone: --not-known"],
  ["codex", [], ["--yolo"], "--yolo"],
  ["codex", [], ["-s", "danger-full-access"], "-s danger-full-access"],
  ["codex", [], ["-c", 'sandbox_mode="danger-full-access"'], '-c sandbox_mode="danger-full-access"'],
  ["codex", [], ["-s", "read-only"], null],
  ["codex", ["-c", "model=a"], ["-c", "model=b"], null],
  ["codex", ["-c", "x=1", "-c", "x=2"], ["-c", "x=1", "-c", "x=2"], null],
  ["codex", ["-c", "x=1", "-c", "x=2"], ["-c", "x=2", "-c", "x=1"], "-c x=2 before -c x=1"],
  ["codex", ["-c", "x=1", "-c", "x=2"], ["-c", "x=1", "-c", "x=2", "-c", "x=1"], "-c x=2 before -c x=1"],
  ["codex", ["-c", "x=1", "-c", "x=2"], ["-c", "x=2", "-c", "x=1", "-c", "x=2"], null],
  ["gemini", [], ["-y"], "-y"],
  ["gemini", ["--sandbox"], ["--sandbox=no"], "--sandbox=no"],
  ["opencode", [], ["--auto"], "--auto"],
  ["opencode", ["--pure"], [], "gone: --pure"],
  ["iflow", [], ["--yolo"], "--yolo"],
] as const)("a start of %s with %j, now with %j, is wider by %s", (id, then, now, wanted) => {
  const engine = builtInEngine(id);
  if (engine === undefined) throw new Error(id);
  const wider = widerStart(engine, "edit", { had: then, now, native: [], asked: false });
  expect(wider === null ? null : `${wider.gone ? "gone: " : ""}${wider.option}`).toBe(wanted);
});

test("an option that Reprise does not know may be dropped only where the engine refused it", () => {
  const engine = builtInEngine("claude");
  if (engine === undefined) throw new Error("claude");
  const wider = (then: readonly string[], now: readonly string[], refused: boolean) =>
    widerStart(engine, "edit", { had: then, now, native: [], asked: false, refused })?.option ?? null;
  const mistyped = ["--modle", "x"];
  expect(wider(mistyped, [], false)).toBe("--modle x");
  expect(wider(mistyped, ["--model", "x"], true)).toBeNull();
  expect(wider(mistyped, mistyped, true)).toBeNull();
  expect(wider(mistyped, ["--mdoel", "x"], true)).toBe("--mdoel x");
  expect(wider([...mistyped, "--disallowedTools", "Bash"], mistyped, true)).toBe("--disallowedTools Bash");
});

test("a requested level replaces the mode from the config, and no other limit", () => {
  const engine = builtInEngine("claude");
  if (engine === undefined) throw new Error("claude");
  const wider = (then: readonly string[], now: readonly string[]) =>
    widerStart(engine, "edit", { had: then, now, native: [], asked: true });
  expect(wider(PLAN, [])).toBeNull();
  expect(wider(BYPASS, BYPASS)?.option).toBe("--permission-mode bypassPermissions");
  expect(wider(["--disallowedTools", "Bash"], [])?.gone).toBe(true);
});

test("every built-in engine knows the level edit, and its grammar knows each option of a level", () => {
  for (const engine of ENGINES) {
    expect([engine.id, engine.access?.edit !== undefined]).toEqual([engine.id, true]);
    const { unless = [], profile: _profile, ...levels } = engine.access ?? {};
    for (const words of Object.values(levels)) {
      const { options, words: rest } = parseArgs(engine.grammar, words, true);
      expect([engine.id, rest, options.every(({ spec }) => spec !== null)]).toEqual([engine.id, [], true]);
    }
    for (const name of unless)
      expect([name, engine.grammar.options.some(({ names }) => names.includes(name))]).toEqual([name, true]);
  }
});

test("a permission profile from Codex's config decides instead of a sandbox that would disable it", () => {
  const { access } = codex;
  const rules =
    access?.profile?.in('model = "x"\n"default_permissions" = "p" # mine\n[permissions.p]\n') ?? null;
  expect(rules).toBe('default_permissions = "p" # mine');
  expect(accessOptions(codex, "edit", [], rules)).toEqual({ level: "edit", options: [], by: rules });
  expect(accessOptions(codex, "full", [], rules)).toEqual({ level: "full", options: [], by: rules });
  expect(() => accessOptions(codex, "read", [], rules)).toThrow('access "read" would switch that off');
  expect(accessOptions(codex, "read", ["-s", "read-only"], rules).by).toBe("-s read-only");
  for (const text of ["", '[permissions.p]\ndefault_permissions = "p"', 'default_permissions = ":workspace"'])
    expect(access?.profile?.in(text)).toBeNull();
  expect(optionsOf("codex", "edit", "-c", 'default_permissions="p"')).toBe(
    'as given: -c default_permissions="p"',
  );
});

test("a level for which an engine has no option is refused", () => {
  expect(() => optionsOf("opencode", "read")).toThrow(
    'OpenCode has no option that Reprise knows for access "read"',
  );
});

/** Lines as 0.166.0 wrote them in its read-only sandbox, shortened. */
const call = (id: string, args: object) =>
  JSON.stringify({
    type: "response_item",
    payload: { type: "function_call", name: "exec_command", arguments: JSON.stringify(args), call_id: id },
  });
const output = (id: string, text: string) =>
  JSON.stringify({
    type: "response_item",
    payload: { type: "function_call_output", call_id: id, output: text },
  });
const started = JSON.stringify({ type: "event_msg", payload: { type: "task_started", turn_id: "t" } });
const patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: p.txt\n+patched\n*** End Patch\nEOF";
const exited = (code: number, text: string) =>
  `Chunk ID: 20a69e\nWall time: 0.0000 seconds\nProcess exited with code ${code}\nOriginal token count: 12\nOutput:\n${text}`;

test("Codex's denied calls of the last turn come from its rollout", () => {
  const lines = [
    started,
    call("c0", { cmd: "touch earlier" }),
    output("c0", exited(1, "touch: cannot touch 'earlier': Read-only file system\n")),
    started,
    call("c1", { cmd: "echo hi > a.txt" }),
    output("c1", exited(1, "/bin/bash: line 1: a.txt: Read-only file system\n")),
    call("c2", { cmd: patch }),
    output(
      "c2",
      "patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings",
    ),
    call("c3", { cmd: "touch b", sandbox_permissions: "require_escalated" }),
    output("c3", "approval policy is Never; reject command — you cannot ask for escalated permissions"),
    // A command that failed on its own, and a file that only mentions a refusal.
    call("c4", { cmd: "npm test" }),
    output("c4", exited(1, "1 test failed\n")),
    call("c5", { cmd: "cat notes" }),
    output("c5", exited(0, "Read-only file system\n")),
    "{ torn",
  ];
  expect(deniedIn(lines)).toEqual([
    { name: "exec_command", detail: "echo hi > a.txt" },
    { name: "apply_patch", detail: "p.txt" },
    { name: "exec_command", detail: "touch b" },
  ]);
});

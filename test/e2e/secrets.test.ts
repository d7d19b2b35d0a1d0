/** Secrets do not come to rest: canaries go in at every door, and only the raw tapes have them. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Sandbox } from "./sandbox.ts";

let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
});
afterAll(() => box[Symbol.dispose]());

const tail = (n: number) => `Canary${n}zQ8xW2vB7nM4kJ6hG3`;
const CANARY = {
  environment: tail(1),
  given: tail(2),
  flag: tail(3),
  flagEquals: tail(4),
  prompt: `sk-ant-api03-${tail(5)}`,
  promptHeader: `${tail(6)}AbCdEfGh`,
  promptUrl: tail(7),
  stdout: `ghp_${tail(8)}AbCdEfGhIjKl`,
  stderr: `xoxb-1234567890-${tail(9)}`,
  json: tail(10),
  failure: `sk-proj-${tail(11)}`,
  config: tail(12),
  listed: tail(13),
} as const;

/** Prints every canary that an agent could know, as text, as tool output, as an error and on stderr. */
const AGENT = (script: string) => `
cat >/dev/null
echo '{"type":"thread.started","thread_id":"01a1ddb9-2399-7159-8609-8dfeba0fc993"}'
echo '{"type":"turn.started"}'
cat '${script}'
printf '%s\\n' "stderr: $OPENAI_API_KEY $LAB_TOKEN ${CANARY.stderr}" >&2
printf '{"type":"item.completed","item":{"id":"i1","type":"agent_message","text":"%s, %s, %s"}}\\n' "$OPENAI_API_KEY" "$LAB_TOKEN" "$CONFIG_SECRET"
printf '{"type":"item.completed","item":{"id":"i2","type":"command_execution","command":"echo %s","aggregated_output":"%s","exit_code":0,"status":"completed"}}\\n' "$OPENAI_API_KEY" "$CONFIG_SECRET"
coloured=$(printf %s "$CONFIG_SECRET" | sed 's/.\\{22\\}/&\\\\u001b[01;31m\\\\u001b[K/')
printf '{"type":"item.completed","item":{"id":"i3","type":"agent_message","text":"%s"}}\\n' "$coloured"
echo '{"type":"error","message":"bad key ${CANARY.failure}"}'
echo '{"type":"turn.failed","error":{"message":"401 Unauthorized: bad key ${CANARY.failure}"}}'
exit 1`;

/** Every file that is neither a raw tape nor the engine's own conversation. */
function restingPlaces(): string[] {
  return readdirSync(box.state, { recursive: true, encoding: "utf8" })
    .map((name) => join(box.state, name))
    .filter((path) => statSync(path).isFile())
    .filter((path) => !/\/(stdout|stderr|pty-output)\.log$|\/escrow\/|\/state\/demo\//.test(path));
}

function hits(text: string | Buffer): string[] {
  return Object.entries(CANARY).flatMap(([name, value]) =>
    text.includes(value.slice(0, 20)) || text.includes(value) ? [name] : [],
  );
}

test("13 canaries are in no record, event, index, cache or output of ours, and the tapes are exact", async () => {
  const spoken = join(box.root, "spoken.jsonl");
  const item = (text: string) => ({
    type: "item.completed",
    item: { id: "i0", type: "agent_message", text },
  });
  const lines = [
    item(`token ${CANARY.stdout}`),
    { type: "unheard.of", api_key: CANARY.json, nested: { password: CANARY.json } },
  ];
  writeFileSync(spoken, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  box.program("codex", AGENT(spoken));
  const config = join(box.root, "config");
  mkdirSync(join(config, "reprise"), { recursive: true });
  writeFileSync(
    join(config, "reprise/config.toml"),
    `[engines.codex]\nenv = { CONFIG_SECRET = "${CANARY.config}" }\n`,
  );
  const options = { env: { OPENAI_API_KEY: CANARY.environment, XDG_CONFIG_HOME: config } };
  const message =
    `use ${CANARY.prompt} with Authorization: Bearer ${CANARY.promptHeader} ` +
    `at https://user:${CANARY.promptUrl}@example.org/ and go on`;
  const listed = `mcp_servers.x.args=["--api-key","${CANARY.listed}"]`;
  const native = ["--api-key", CANARY.flag, `--auth-token=${CANARY.flagEquals}`, "-c", listed];
  const started = await box.run(
    ["start", "codex", message, "--env", `LAB_TOKEN=${CANARY.given}`, "--", ...native],
    options,
  );
  expect(started.code).toBe(8);
  const [runDirectory = ""] = box.runDirectories();
  const handle = runDirectory.slice(-8);

  // It really went through: what the agent printed is on the tape as it was.
  const tape = (file: string) => readFileSync(join(runDirectory, "attempts/1", file), "utf8");
  expect(hits(tape("stdout.log"))).toEqual(["environment", "given", "stdout", "json", "failure", "config"]);
  expect(hits(tape("stderr.log"))).toEqual(["environment", "given", "stderr"]);
  expect(started.stdout).toBe(tape("stdout.log"));

  await box.run(["resume", handle, message], options);
  const demo = await box.run(["start", "demo", message], options);
  expect(demo.code).toBe(0);

  const places = restingPlaces();
  expect(places.map((path) => relative(box.state, path))).toEqual(
    expect.arrayContaining([
      "index.db",
      "versions.json",
      expect.stringMatching(/run\.json$/),
      expect.stringMatching(/attempts\/1\/events\.jsonl$/),
    ]),
  );
  const found = places.flatMap((path) =>
    hits(readFileSync(path)).map((name) => `${name} in ${relative(box.state, path)}`),
  );
  expect(found).toEqual([]);

  const commands = [
    ["list"],
    ["list", "--json"],
    ["show", handle],
    ["show", handle, "--json"],
    ["doctor", "--json"],
  ];
  const file = join(box.root, "bundle.tar.gz");
  commands.push(
    ["logs", handle, "--redacted"],
    ["logs", handle, "--redacted", "--stream", "stderr", "--attempt", "1"],
  );
  commands.push(["export", handle, "--json", "--output", file]);
  const given = { env: { ...options.env, LAB_TOKEN: CANARY.given } };
  for (const args of commands) {
    const { code, stdout, stderr } = await box.run(args, given);
    expect([args.join(" "), code, hits(stdout + stderr)]).toEqual([
      args.join(" "),
      args[0] === "doctor" ? 1 : 0,
      [],
    ]);
  }
  const bundle = execFileSync("tar", ["xzOf", file]);
  expect(bundle.toString()).toMatch(/"runId".*stderr: \[redacted:OPENAI_API_KEY\] \[redacted:LAB_TOKEN\]/s);
  expect([hits(bundle), statSync(file).mode & 0o777]).toEqual([[], 0o600]);
  for (const args of [
    ["logs", handle, "--stream", "events"],
    ["resume", handle, "--dry-run"],
  ]) {
    const { stdout, stderr } = await box.run(args, options);
    expect([args.join(" "), hits(stdout + stderr)]).toEqual([args.join(" "), []]);
  }
  // The messages before and after the agent's own stderr.
  const own = started.stderr.split(tape("stderr.log"));
  expect(own).toHaveLength(2);
  expect(own.flatMap(hits)).toEqual([]);
});

test("a secret among the options is not stored, so a resume asks for it instead of guessing", async () => {
  const { handle } = await box.json(["start", "codex", "hello", "--", "--api-key", CANARY.flag]);
  const refused = await box.run(["resume", handle, "go on"]);
  expect(refused).toMatchObject({ code: 8, stdout: "" });
  expect(refused.stderr).toContain("--api-key");
  expect(refused.stderr).not.toContain(CANARY.flag);
  // Given at the wrong place, it is not repeated.
  for (const args of [
    ["start", "codex", "x", `--api-key=${CANARY.flag}`],
    ["resume", CANARY.prompt],
  ]) {
    const { code, stdout, stderr } = await box.run([...args, "--json"]);
    expect([code, stdout, hits(stdout + stderr)]).toEqual([2, expect.stringContaining('"ok":false'), []]);
  }
});

test("a secret that can no longer be recognized is neither printed nor exported", async () => {
  const { handle } = await box.json(["start", "demo", "hello", "--env", `LAB_TOKEN=${CANARY.given}`]);
  const refused = await box.run(["logs", handle, "--redacted"]);
  expect(refused).toMatchObject({ code: 8, stdout: "", stderr: expect.stringContaining("LAB_TOKEN") });
  expect((await box.run(["logs", handle, "--redacted"], { env: { LAB_TOKEN: "" } })).code).toBe(0);
  const file = join(box.root, "unknown.tar.gz");
  const { files, leftOut } = await box.json(["export", handle, "--output", file]);
  expect(leftOut).toEqual([expect.stringContaining("LAB_TOKEN")]);
  expect(files).toEqual(["bundle.json", "run.json", "attempts/1/meta.json", "attempts/1/events.jsonl"]);
  const again = await box.run(["export", handle, "--output", file]);
  expect(again).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("--force") });
  for (const output of ["-", `${box.root}/`])
    expect(await box.run(["export", handle, "--output", output])).toMatchObject({ code: 2, stdout: "" });
});

test("the secrets of an attempt whose record is gone are unknown", async () => {
  using own = new Sandbox();
  const { handle, runDirectory } = await own.json(["start", "demo", "hello"]);
  rmSync(join(runDirectory, "attempts/1/meta.json"));
  for (const name of ["index.db", "index.db-wal", "index.db-shm"])
    rmSync(join(runDirectory, "../..", name), { force: true });
  const refused = await own.run(["logs", handle, "--redacted"]);
  expect(refused).toMatchObject({ code: 8, stdout: "", stderr: expect.stringContaining("record") });
  const file = join(own.root, "lost.tar.gz");
  const { files, leftOut } = await own.json(["export", handle, "--output", file]);
  expect(leftOut).toEqual([expect.stringContaining("Attempt 1: its log is omitted")]);
  expect(files).not.toContain("attempts/1/output.txt");
});

test("an export without a log says so", async () => {
  const { handle, runDirectory } = await box.json(["start", "demo", "hello"]);
  rmSync(join(runDirectory, "attempts/1/pty-output.log"));
  const file = join(box.root, "without.tar.gz");
  const { files, leftOut } = await box.json(["export", handle, "--output", file]);
  expect(leftOut).toEqual([expect.stringContaining("Attempt 1 has no log")]);
  expect(files).not.toContain("attempts/1/output.txt");
});

test("a message with a secret is not made an argument, which everybody could read", async () => {
  const refused = await box.run(["start", "iflow", `use ${CANARY.prompt} and go on`]);
  expect(refused).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("argument") });
  expect(refused.stderr).not.toContain(CANARY.prompt);
  const { handle } = await box.json(["start", "iflow", "hello"]);
  expect(await box.run(["resume", handle, `use ${CANARY.prompt}`])).toMatchObject({ code: 2, stdout: "" });
});

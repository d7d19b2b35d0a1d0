/** A scheduled resume that cannot start: every command that names it says why, and what to type for this kind of run. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { AgentBox } from "../e2e/agent-box.ts";

let box: AgentBox;
beforeEach(() => {
  box = new AgentBox();
});
afterEach(() => box[Symbol.asyncDispose]());

const SECRET = { MYAPP_TOKEN: "abcdefgh12345678" };

async function withSecret(): Promise<string> {
  const words = ["start", "demo", "--env", `MYAPP_TOKEN=${SECRET.MYAPP_TOKEN}`, "hello"];
  return (await box.json<{ handle: string }>(words)).handle;
}

/** A resume whose secret is only in the environment of the user, not in that of the daemon. */
async function failed(): Promise<string> {
  const handle = await withSecret();
  expect(await box.run(["daemon", "start"])).toMatchObject({ code: 0 });
  expect(await box.run(["resume", handle, "--at", "+1s", "go on"], { env: SECRET })).toMatchObject({
    code: 0,
  });
  const end = Date.now() + 60_000;
  for (;;) {
    const found = await box.json<{ scheduled: { state: string }[] }>(["scheduled", "list", "--all"]);
    if (found.scheduled[0]?.state === "failed") return handle;
    if (Date.now() > end) throw new Error(`${String(found.scheduled[0]?.state)}\n${box.daemonLog()}`);
    await new Promise((wake) => setTimeout(wake, 100));
  }
}

test("a resume that cannot be scheduled names commands for an ordinary run", async () => {
  const handle = await withSecret();
  const { code, stderr } = await box.run(["resume", handle, "--at", "+2h", "go on"]);
  expect(code).toBe(8);
  expect(stderr).toContain(
    `set MYAPP_TOKEN, then schedule it again, which starts the daemon: \`reprise resume ${handle} --at`,
  );
  expect(stderr).not.toContain("reprise agent");
});

test("scheduled and show name a failed one until the run is resumed", async () => {
  const handle = await failed();
  const listed = await box.run(["scheduled"]);
  expect(listed.stdout).toMatch(new RegExp(`${handle} +demo +failed`));
  expect(listed.stdout).toContain("was started with the variable MYAPP_TOKEN");
  expect(listed.stdout).toContain(`Resume it now: reprise resume ${handle} "…"`);
  const shown = await box.run(["show", handle]);
  expect(shown.stdout).toMatch(/scheduled {2,}the one of .* failed: .*MYAPP_TOKEN/);
  expect(`${listed.stdout}${shown.stdout}`).not.toContain("reprise agent");
  const record = await box.json(["show", handle]);
  expect(record).toMatchObject({ scheduled: null, scheduleFailed: { state: "failed" } });

  expect(await box.run(["resume", handle, "go on"], { env: SECRET })).toMatchObject({ code: 0 });
  expect((await box.run(["scheduled"])).stdout).toContain("Nothing is scheduled");
  expect((await box.run(["show", handle])).stdout).not.toContain("failed:");
}, 120_000);

test("scheduled cancel forgets a failed one", async () => {
  const handle = await failed();
  expect(await box.run(["scheduled", "cancel", handle])).toMatchObject({ code: 0 });
  expect((await box.run(["scheduled"])).stdout).toContain("Nothing is scheduled");
}, 120_000);

test("--when-reset refuses a limit that ends in more than a year, as --at does", async () => {
  const { handle } = JSON.parse(
    (await box.run(["start", "demo", "--json", "x @@429:reset=9999-01-01T00:00:00Z"])).stdout,
  ) as { handle: string };
  const { code, stderr } = await box.run(["resume", handle, "--when-reset", "go"]);
  expect([code, stderr]).toEqual([2, expect.stringContaining("ends more than a year from now")]);
});

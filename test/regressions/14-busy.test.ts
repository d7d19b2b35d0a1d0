/** A session that another run works on: the refusal names that run, and nothing is left behind. */
import { expect, test } from "vitest";
import { Sandbox } from "../e2e/sandbox.ts";

interface Started {
  readonly handle: string;
  readonly session: { readonly value: string };
}

test("a start in a busy session names the run that is busy, and leaves no run without attempts", async () => {
  using box = new Sandbox();
  const { handle, session } = await box.json<Started>(["start", "claude", "hello"]);
  expect(await box.json(["resume", handle, "@@slow:60000", "--detach"])).toMatchObject({ ok: true });
  for (const option of ["--resume", "--session-id"]) {
    const refused = await box.run(["start", "claude", "go on", "--", option, session.value]);
    expect(refused).toMatchObject({ code: 4, stderr: expect.stringContaining(`reprise stop ${handle}`) });
    expect(box.runDirectories()).toHaveLength(1);
  }
  const { runs } = await box.json<{ runs: { handle: string }[] }>(["list"]);
  expect(runs.map((run) => run.handle)).toEqual([handle]);
  expect(await box.run(["stop", handle])).toMatchObject({ code: 0 });
});

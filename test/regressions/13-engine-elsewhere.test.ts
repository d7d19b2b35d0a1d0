/** A dead attempt of an engine that only its project's config defines: other places do not record its end without its session. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { definesParrot, writeConfig } from "../e2e/parrot.ts";
import { Sandbox } from "../e2e/sandbox.ts";

let box: Sandbox;
beforeEach(() => {
  box = new Sandbox();
  definesParrot(box);
});
afterEach(() => box[Symbol.dispose]());

/** The records as they are when Reprise dies between the id on the tape and the id in the record. */
function forget(runDirectory: string): void {
  const change = (name: string, more: object) => {
    const path = join(runDirectory, name);
    writeFileSync(path, JSON.stringify({ ...(JSON.parse(readFileSync(path, "utf8")) as object), ...more }));
  };
  const none = { field: "session_id", value: null, source: null, verifiedAt: null };
  change("run.json", { status: "running", session: none, sessions: [] });
  change("attempts/1/meta.json", { state: "running", endedAt: null, outcome: null, reported: [] });
}

test.each(["list", "show", "resume"] as const)(
  "%s without the engine's config leaves the session to a resume that knows the engine",
  async (command) => {
    const { handle, session, runDirectory } = await box.json(["start", "parrot", "hello"]);
    forget(runDirectory);
    rmSync(join(box.state, "index.db"));
    writeConfig(box, "");
    const told = await box.run([command, ...(command === "list" ? [] : [handle])]);
    if (command === "resume")
      expect([told.code, told.stderr]).toEqual([
        2,
        expect.stringContaining("no config file defines its engine parrot"),
      ]);
    else expect([told.code, told.stdout]).toEqual([0, expect.stringContaining("interrupted")]);
    definesParrot(box);
    expect(await box.json(["resume", handle, "go on"])).toMatchObject({
      ok: true,
      session: { value: session.value },
    });
  },
);

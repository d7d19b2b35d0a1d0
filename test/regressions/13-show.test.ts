/** What `show` prints on a terminal is whole: nothing that a person reads or types loses its beginning. */
import { expect, test } from "vitest";
import { HAS_TMUX, Screen } from "../e2e/screen.ts";
import { Sandbox, until } from "../e2e/sandbox.ts";

test.skipIf(!HAS_TMUX).each([
  ["80 columns", 80, {}],
  ["200 columns without colour", 200, { NO_COLOR: "1" }],
  ["50 columns without colour", 50, { NO_COLOR: "1" }],
] as const)("show prints every value from its first letter at %s", async (_what, cols, env) => {
  using box = new Sandbox();
  const started = await box.json(["start", "demo", "follow the words @@text:ok"]);
  const { handle, runId } = started;
  using screen = new Screen(box, { cols, rows: 60, env });
  screen.type(`reprise show ${handle}; echo SHOWN''DONE`);
  const text = await until("it is shown", () => {
    const now = screen.text();
    return now.includes("SHOWNDONE") ? now : null;
  });
  expect(text).toMatch(new RegExp(`^run +${handle}\\s+${runId}`, "m"));
  expect(text).toMatch(/^engine +demo$/m);
  expect(text).toMatch(/^status +completed, 1 attempt/m);
  expect(text).toMatch(new RegExp(`^cwd +${box.cwd}`, "m"));
  expect(text).toMatch(/^session +session_id/m);
});

/** What `show` prints on a terminal is whole: nothing that a person reads or types loses its beginning. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
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

test.skipIf(!HAS_TMUX)(
  "at 80 columns with colour, the summary and show break lines at words, and never within a command",
  async () => {
    using box = new Sandbox();
    const cwd = join(box.cwd, "a-folder-with-a-long-name/and-another-one-inside-of-it/src");
    mkdirSync(cwd, { recursive: true });
    using screen = new Screen(box, { cols: 80, rows: 100 });
    // The pane is asked for its rows: joined ones would hide where the terminal itself broke a line.
    const rows = async (line: string) => {
      await screen.command(line);
      return screen.tmux("capture-pane", "-p", "-S", "-", "-t", "screen").split("\n");
    };
    const summary = await rows(
      `reprise start claude "hi @@die:after-session" --cwd ${cwd} --name "${"word ".repeat(19)}"`,
    );
    const handle = /^handle +([0-9a-f]{8})/m.exec(summary.join("\n"))?.[1] ?? "";
    const begin = summary.findIndex((row) => row.startsWith("handle"));
    expect(summary[begin]).toMatch(/^handle {3}\w{8} {3}\(cannot be resumed: \S/);
    expect(summary[begin + 1]).toMatch(/^ {9}\S/);
    const labels =
      /^(run|engine|status|name|message|cwd|tokens|session|launch|home|directory|copy|attempt \d|next) /;
    const show = async () => {
      const shown = await rows(`reprise show ${handle}`);
      const from = shown.findIndex((row) => row.startsWith("run "));
      const body = shown.slice(
        from,
        shown.findIndex((row) => row.startsWith("ENDED")),
      );
      for (const row of body)
        if (row !== "") expect(row).toMatch(new RegExp(`${labels.source}|^ {2}/|^ {11}`));
      return body;
    };
    expect((await show()).join("\n")).toContain(`reprise resume ${handle} --force-fresh "…"`);
    await box.run(["resume", handle, "--force-fresh", "hi"]);
    const body = await show();
    const times = body.findLastIndex((row) => /^ {11}20\d\d-.* · /.test(row));
    expect(body[times + 1]).toMatch(/^ {13}\S/);
  },
);

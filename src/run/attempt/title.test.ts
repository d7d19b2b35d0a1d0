import { expect, test } from "vitest";
import { Fault } from "../../core/faults.ts";
import { titleIn } from "./title.ts";

type Parts = Parameters<typeof titleIn>;

const job = (sessions: () => Promise<object[]>, readStore = true): Parts[0] =>
  ({
    engine: { can: { readStore }, sessions },
    engineHome: "/home",
    redact: (text: string) => text.replaceAll("secret", "[redacted]"),
  }) as unknown as Parts[0];
const ui = (change: object = {}): Parts[1] =>
  ({ launch: { message: null }, session: { value: "s" }, cwd: "/", ...change }) as unknown as Parts[1];
const said = (title: string | null, opening?: string) => async () => [
  { id: "other", title: "not this one" },
  { id: "s", title, opening },
];

const cases: Record<string, [job: Parts[0], run: Parts[1], title: string | undefined]> = {
  "the engine's title of the run's own session": [job(said("fix it")), ui(), "fix it"],
  "the first message where the engine has found no title yet": [
    job(said("New session - 2026-01-01T00:00:00Z", "fix it")),
    ui(),
    "fix it",
  ],
  "redacted before it is cut": [job(said(`${"x".repeat(190)} secret`)), ui(), `${"x".repeat(190)} [redacte…`],
  "one harmless line": [job(said("a\u001b[2J\nb")), ui(), "a\\x1b[2J b"],
  "none for a run with a message": [job(said("t")), ui({ launch: { message: "m" } }), undefined],
  "none for a run that has one": [job(said("t")), ui({ title: "before" }), undefined],
  "none without a session": [job(said("t")), ui({ session: { value: null } }), undefined],
  "none where the store cannot be read": [job(said("t"), false), ui(), undefined],
  "none of blanks": [job(said("  ")), ui(), undefined],
  "none where reading fails": [
    job(async () => {
      throw new Fault("storage_failed", "no");
    }),
    ui(),
    undefined,
  ],
};

test.each(Object.entries(cases))("%s", async (_name, [of, run, title]) => {
  expect((await titleIn(of, run)).title).toBe(title);
});

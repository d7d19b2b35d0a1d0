/** A search stores no secret of an earlier run, even if its variable has another value today, or none. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Sandbox } from "../e2e/sandbox.ts";

const SECRET = "Vb3kcanaryPLAIN0042x";
const LONG = `${"word ".repeat(200)}use ${SECRET} now`;

const stored = (box: Sandbox) =>
  readdirSync(box.state)
    .filter((name) => name.startsWith("search.db"))
    .filter((name) => readFileSync(join(box.state, name)).includes(SECRET));

test.each<[what: string, value: string | undefined, isFound: boolean]>([
  ["the same", SECRET, true],
  ["unset", undefined, false],
  ["another", "anothervalue99", false],
  ["empty", "", false],
])(
  "the value is %s at the time of the search",
  async (_what, value, isFound) => {
    using box = new Sandbox();
    const { handle } = await box.json<{ handle: string }>(["start", "demo", LONG], {
      env: { MYAPP_TOKEN: SECRET },
    });
    const { total } = await box.json<{ total: number }>(["search", "use now"], {
      env: { MYAPP_TOKEN: value },
    });
    expect(total > 0).toBe(isFound);
    expect(stored(box)).toEqual([]);
    if (value !== "anothervalue99") return;
    const refused = await box.run(["logs", handle, "--redacted"], { env: { MYAPP_TOKEN: value } });
    expect(refused).toMatchObject({ code: 8, stderr: expect.stringContaining("has another value") });
  },
  60_000,
);

/** An agent that prints any number of session ids costs a few writes, not one for each. */
import { existsSync, readFileSync, watch, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { collect, Sandbox, until } from "../e2e/sandbox.ts";

const IDS = 200;

test("session ids that are printed together are all recorded together", async () => {
  using box = new Sandbox();
  const go = join(box.root, "go");
  const print = `const line = (value) => JSON.stringify(value) + "\\\\n";
    const id = (n) => "00000000-0000-4000-8000-" + String(n).padStart(12, "0");
    const all = Array.from({ length: ${IDS} }, (_, n) => line({ type: "system", subtype: "init", session_id: id(n) }));
    process.stdout.write(all.join("") + line({ type: "result", subtype: "success", is_error: false, session_id: id(0), result: "ok" }));`;
  writeFileSync(join(box.root, "print.js"), print.replaceAll("\\\\n", "\\n"));
  box.program(
    "claude",
    `[ "$1" = --version ] && echo "2.0.1 (Claude Code)" && exit
while [ ! -e '${go}' ]; do sleep 0.05; done
exec '${process.execPath}' '${join(box.root, "print.js")}'`,
  );
  const ended = collect(box.spawn(["start", "claude", "--json", "hello"]));
  await until("the run is recorded", () =>
    box.runDirectories().some((path) => existsSync(join(path, "attempts/1/meta.json"))),
  );
  const [directory = ""] = box.runDirectories();
  let writes = 0;
  using watcher = Object.assign(
    watch(directory, (_, name) => void (name === "run.json" && (writes += 1))),
    {
      [Symbol.dispose]: () => watcher.close(),
    },
  );
  writeFileSync(go, "");
  const { stdout } = await ended;
  expect(JSON.parse(stdout)).toMatchObject({ ok: true });
  const { sessions } = JSON.parse(readFileSync(join(directory, "run.json"), "utf8")) as {
    sessions: unknown[];
  };
  expect(sessions.length).toBeGreaterThanOrEqual(IDS);
  expect(writes).toBeLessThan(IDS / 4);
});

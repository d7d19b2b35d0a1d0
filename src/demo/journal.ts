/**
 * The agent's own account of events, for tests that must not rely on Reprise: one JSON line per event, each appended by
 * a single write. Off unless REPRISE_DEMO_LOG names a file.
 */
import { createHash } from "node:crypto";
import { appendFileSync } from "node:fs";
import { isatty } from "node:tty";
import type { Journal, DemoWorld } from "./persona.ts";

export function makeJournal(world: DemoWorld, as: string): Journal {
  const file = world.env["REPRISE_DEMO_LOG"];
  if (file === undefined || file === "") return { write: () => undefined };
  return {
    write(event, facts = {}) {
      const line = { at: world.now().toISOString(), event, as, pid: process.pid, ...facts };
      appendFileSync(file, `${JSON.stringify(line)}\n`, { mode: 0o600 });
    },
  };
}

/** Facts of the `start` line. The environment is limited to names that cannot hold a user's key. */
export function startFacts(world: DemoWorld, argv: readonly string[]): Record<string, unknown> {
  const env = Object.entries(world.env).filter(([name]) =>
    /^(REPRISE_\w+|PWD|TERM|COLUMNS|LINES)$/.test(name),
  );
  return {
    ppid: process.ppid,
    argv,
    cwd: world.cwd,
    env: Object.fromEntries(env),
    terminals: [0, 1, 2].filter((fd) => isatty(fd)),
  };
}

/** Facts of the `message` line: enough to prove that the message arrived whole. */
export function messageFacts(text: string): Record<string, unknown> {
  return {
    bytes: Buffer.byteLength(text),
    sha256: createHash("sha256").update(text).digest("hex"),
    text: text.slice(0, 4096),
  };
}

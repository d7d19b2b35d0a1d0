/** Notifications, told to a real server, a real command and a `notify-send` that writes down what it got. */
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { testDeps } from "../../test/deps.ts";
import { mergeConfig, type NotifyConfig } from "../core/config.ts";
import type { DecisionRecord } from "../core/supervision.ts";
import type { Deps } from "../run/run.ts";
import { notifyOf } from "./decision-notice.ts";

const HOSTILE = `-x\u001b]0;owned\u0007 <b>&amp;</b>\\033[31m \u202egnp.exe \n\r$(touch pwned) 'swordfish-4711' "`;

const decision = (more: Partial<DecisionRecord> = {}): DecisionRecord => ({
  v: 1,
  id: "1a2b3c4d-7",
  agentId: "1a2b3c4d",
  runId: "20260401T120000Z-claude-1a2b3c4d",
  attempt: 2,
  trigger: "error",
  what: "It was refused three times.",
  trouble: { kind: "rate_limited", message: "try later", resetsAt: "2026-04-01T15:00:00Z" },
  lastWords: "I could not finish.",
  options: [{ n: 1, label: "resume it", does: "resume" }],
  state: "open",
  choice: null,
  createdAt: "2026-04-01T12:00:00.000Z",
  ...more,
});

let root: string;
let warnings: string[];
let server: { readonly url: string; readonly got: { body: string; type: string }[]; close(): void };
let answer: (request: IncomingMessage, response: ServerResponse) => void;

beforeEach(async () => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-notify-")));
  warnings = [];
  answer = (_, response) => void response.end("{}");
  server = await serve();
});
afterEach(() => {
  server.close();
  rmSync(root, { recursive: true, force: true });
});

async function serve(): Promise<typeof server> {
  const got: { body: string; type: string }[] = [];
  const http = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      got.push({ body, type: request.headers["content-type"] ?? "" });
      answer(request, response);
    });
  });
  await new Promise<void>((ready) => http.listen(0, "127.0.0.1", ready));
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/hook/s3cret-path`;
  return { url, got, close: () => void (http.closeAllConnections(), http.close()) };
}

/** Writes its arguments, one per line, between brackets, and its stdin. */
function recorder(name: string, end = "exit 0"): string {
  const file = join(root, name);
  writeFileSync(
    file,
    `#!/bin/sh\nfor a in "$@"; do printf '[%s]\\n' "$a" >> "${file}.args"; done\ncat > "${file}.stdin"\n${end}\n`,
  );
  chmodSync(file, 0o755);
  return file;
}

async function depsWith(config: NotifyConfig, env: Record<string, string> = {}): Promise<Deps> {
  const deps = await testDeps(root, {
    config: mergeConfig({ notify: config }, {}),
    env: { PATH: `${root}:/usr/bin:/bin`, MY_TOKEN: "swordfish-4711", ...env },
  });
  const data = { definition: { name: "worker" } };
  await deps.store.saveDocument({ kind: "agent", id: "1a2b3c4d", open: true, data }, null);
  warnings = deps.warnings;
  return deps;
}

const FACTS = {
  event: "decision",
  text: "worker (1a2b3c4d): It was refused three times.",
  agent: "worker",
  decision: {
    id: "1a2b3c4d-7",
    agentId: "1a2b3c4d",
    runId: "20260401T120000Z-claude-1a2b3c4d",
    attempt: 2,
    trigger: "error",
    what: "It was refused three times.",
    trouble: { kind: "rate_limited", message: "try later", resetsAt: "2026-04-01T15:00:00Z" },
    lastWords: "I could not finish.",
    options: [{ n: 1, label: "resume it", does: "resume" }],
    createdAt: "2026-04-01T12:00:00.000Z",
  },
  answer: "reprise decisions resolve 1a2b3c4d-7",
};

describe("a command", () => {
  test("gets the facts on stdin and its own arguments alone", async () => {
    const command = recorder("tell");
    await notifyOf(await depsWith({ command: [command, "--now", "a b"] }), decision());
    expect(JSON.parse(readFileSync(`${command}.stdin`, "utf8"))).toEqual(FACTS);
    expect(readFileSync(`${command}.args`, "utf8")).toBe("[--now]\n[a b]\n");
    expect(warnings).toEqual([]);
  });

  test("is found on PATH", async () => {
    const command = recorder("tell");
    await notifyOf(await depsWith({ command: ["tell"] }), decision());
    expect(existsSync(`${command}.stdin`)).toBe(true);
  });

  test.each([
    ["fails", "exit 3", "it failed (exit code 3)"],
    ["is killed", "kill -9 $$", "it failed (exit code SIGKILL)"],
  ])("that %s causes a warning", async (_name, end, why) => {
    await notifyOf(await depsWith({ command: [recorder("tell", end)] }), decision());
    expect(warnings).toEqual([`notify.command failed for decision 1a2b3c4d-7: ${why}`]);
  });

  test("that does not read causes no warning, and a missing command does", async () => {
    await notifyOf(await depsWith({ command: ["true"] }), decision({ lastWords: "x".repeat(200_000) }));
    expect(warnings).toEqual([]);
    await notifyOf(await depsWith({ command: ["no-such-program"] }), decision());
    expect(warnings).toEqual([expect.stringContaining("The program no-such-program was not found on PATH.")]);
  });
});

describe("a webhook", () => {
  test("gets the facts as JSON", async () => {
    await notifyOf(await depsWith({ webhook: server.url }), decision());
    expect(server.got.map(({ body, type }) => ({ body: JSON.parse(body) as unknown, type }))).toEqual([
      { body: FACTS, type: "application/json" },
    ]);
    expect(warnings).toEqual([]);
  });

  test("that refuses, redirects or is not there causes a warning without its address", async () => {
    const deps = await depsWith({ webhook: server.url });
    answer = (_, response) => void response.writeHead(500).end("no");
    await notifyOf(deps, decision());
    answer = (_, response) => void response.writeHead(302, { location: `${server.url}/elsewhere` }).end();
    await notifyOf(deps, decision());
    server.close();
    await notifyOf(deps, decision());
    expect(server.got.length).toBe(2);
    expect(warnings).toEqual([
      "notify.webhook failed for decision 1a2b3c4d-7: it answered 500",
      "notify.webhook failed for decision 1a2b3c4d-7: it answered 302",
      expect.stringMatching(/^notify.webhook failed for decision 1a2b3c4d-7: fetch failed \(\w+\)$/),
    ]);
  });

  test("that never answers is given up", async () => {
    answer = () => {};
    await notifyOf(await depsWith({ webhook: server.url }), decision());
    expect(warnings).toEqual(["notify.webhook failed for decision 1a2b3c4d-7: it took too long"]);
  });
});

describe.skipIf(process.platform === "darwin")("the desktop", () => {
  test.each(["DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"])(
    "gets the notification through %s",
    async (name) => {
      const program = recorder("notify-send");
      await notifyOf(await depsWith({}, { [name]: ":0" }), decision());
      expect(readFileSync(`${program}.args`, "utf8")).toBe(
        "[--app-name=Reprise]\n[--]\n[Reprise: an agent needs a decision]\n[worker (1a2b3c4d): It was refused three times.]\n",
      );
    },
  );

  test("gets nothing where it does not exist, and no warning is logged", async () => {
    const program = recorder("notify-send");
    await notifyOf(await depsWith({}), decision());
    rmSync(program);
    await notifyOf(await depsWith({}, { DISPLAY: ":0", PATH: root }), decision());
    expect({ told: existsSync(`${program}.args`), warnings }).toEqual({ told: false, warnings: [] });
  });

  test("that fails causes a warning", async () => {
    recorder("notify-send", "exit 1");
    await notifyOf(await depsWith({}, { DISPLAY: ":0" }), decision());
    expect(warnings).toEqual([
      expect.stringMatching(/^the desktop notification failed for decision 1a2b3c4d-7: .*failed/),
    ]);
  });
});

test("hostile text in every field stays text, everywhere, and without secrets", async () => {
  const [command, desktop] = [recorder("tell"), recorder("notify-send")];
  const deps = await depsWith({ command: [command], webhook: server.url }, { DISPLAY: ":0" });
  await deps.store.saveDocument(
    { kind: "agent", id: HOSTILE, open: true, data: { definition: { name: HOSTILE } } },
    null,
  );
  await notifyOf(
    deps,
    decision({
      id: HOSTILE,
      agentId: HOSTILE,
      runId: HOSTILE,
      what: HOSTILE,
      trouble: { kind: "other", message: HOSTILE },
      tried: HOSTILE,
      lastWords: HOSTILE.repeat(100),
      options: [{ n: 1, label: HOSTILE, does: "resume" }],
      createdAt: HOSTILE,
    }),
  );
  const texts = [readFileSync(`${command}.stdin`, "utf8"), server.got[0]?.body ?? ""];
  for (const text of texts) {
    const { decision: facts } = JSON.parse(text) as typeof FACTS;
    expect(facts.what).toBe(HOSTILE.replace("swordfish-4711", "[redacted:MY_TOKEN]"));
    expect(/swordfish|[\u001b\u202e\u0007]/.test(text)).toBe(false);
  }
  expect(existsSync(`${command}.args`)).toBe(false);
  const [, , , body = "", ...more] = readFileSync(`${desktop}.args`, "utf8").trimEnd().split("\n");
  expect(more).toEqual([]);
  // The command that resolves it is ours; the rest of the line is the agent's.
  expect(body).not.toMatch(/[<>&\\\u001b\u0007\u202e]|swordfish/);
  expect(body).toMatch(/^\[[^-]/);
  expect(body.length).toBeLessThan(200);
  expect(warnings).toEqual([]);
});

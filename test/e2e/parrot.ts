/**
 * A custom engine for a sandbox. Words of the message decide what it does: NOID names no session, OTHERID answers in
 * another one, NODONE ends without an end of the turn, DIE writes to stderr and ends by SIGKILL, WRITE makes a file.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Sandbox } from "./sandbox.ts";

const PROGRAM = `
const { readFileSync, writeFileSync, appendFileSync, existsSync } = require("node:fs");
const args = process.argv.slice(2);
const log = process.env.HOME + "/parrot.jsonl";
let text = args[0] === "chat" ? "" : readFileSync(0, "utf8");
if (existsSync(process.env.HOME + "/parrot.does")) text += readFileSync(process.env.HOME + "/parrot.does", "utf8");
const asked = args.includes("--continue") ? args[args.indexOf("--continue") + 1] : null;
const session = text.includes("OTHERID") ? "s-999" : asked ?? "s-" + process.pid + Date.now();
appendFileSync(log, JSON.stringify({ asked, session, text }) + "\\n");
const out = (value) => process.stdout.write(JSON.stringify(value) + "\\n");
if (!text.includes("NOID")) out({ type: "init", session_id: session });
out({ type: "message", text: "heard " + text.length });
if (text.includes("WRITE")) writeFileSync("parrot.txt", text);
if (text.includes("DIE") && asked === null) {
  process.stderr.write("curl: (22) The requested URL returned error: 403 Forbidden\\n", () => process.kill(process.pid, "SIGKILL"));
  setInterval(() => {}, 1_000);
} else if (!text.includes("NODONE")) out({ type: "result", ok: true });
`;

/** Defines the engine `parrot` in the user's config. */
export function definesParrot(box: Sandbox, { format = "s-[0-9]+", more = "" } = {}): void {
  writeFileSync(join(box.root, "parrot.cjs"), PROGRAM);
  box.program("parrot", `exec "${process.execPath}" "${join(box.root, "parrot.cjs")}" "$@"`);
  writeConfig(
    box,
    [
      `[engines.parrot]\nprogram = "parrot"\ntitle = "Parrot"\nstart = ["ask"]`,
      'resume = ["ask", "--continue", "{session}"]\nmessage = "stdin"',
      'interactive = { start = ["chat"], resume = ["chat", "--continue", "{session}"] }',
      `session = { field = "session_id", format = "${format}" }`,
      '[engines.parrot.events]\nsession = "type=init"\ntext = "type=message : text"\ndone = "type=result"\n',
      more,
    ].join("\n"),
  );
}

export function writeConfig(box: Sandbox, text: string): void {
  const path = join(box.home, ".config", "reprise", "config.toml");
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

/** Words that are added to every message from now on. */
export function parrotDoes(box: Sandbox, words: string): void {
  writeFileSync(join(box.home, "parrot.does"), words);
}

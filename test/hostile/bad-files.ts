/** Bad input in files: runbooks, issues, review comments, recorded output. One file a row, made outside the state directory. */
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Ground, Row } from "./bad-rows.ts";

/** Text, bytes, or no regular file at all: `DIRECTORY`, `FIFO`. */
type Content = string | Buffer;
const DIRECTORY = "a directory";
const FIFO = "a FIFO";

function file({ box }: Ground, name: string, content: Content): string {
  const path = join(box.root, "files", name);
  mkdirSync(join(box.root, "files"), { recursive: true });
  if (content === DIRECTORY) mkdirSync(path, { recursive: true });
  else if (content === FIFO) spawnSync("mkfifo", [path]);
  else writeFileSync(path, content);
  return path;
}

let number = 0;

function runbook(name: string, content: Content, says: RegExp, kind = "toml"): Row {
  number += 1;
  const base = `book-${number}.${kind}`;
  return {
    name,
    args: (ground) => ["runbook", "check", file(ground, base, content)],
    code: 2,
    says,
    report: true,
  };
}

const AGENT = '[agent.a]\nengine = "demo"\nprompt = "x"\n';

const NUDGE = 'on_idle = { action = "nudge", message = "x", cooldown =';
const NO_DURATION = /cooldown is a duration in quotes/;

const runbooks: readonly Row[] = [
  runbook("60 nothing", "", /1:1.*empty/),
  runbook("62 UTF-16", Buffer.from(`\ufeff${AGENT}`, "utf16le"), /UTF-8|UTF-16/),
  runbook("63 more than 1 MB", `# ${"x".repeat(1024 * 1024)}\n${AGENT}`, /MB|MiB|large|big/),
  runbook("64 an unknown key", `${AGENT}colour = "red"\n`, /:4:1: agent\.a\.colour is unknown/),
  runbook("65 a wrong type", "[agent.a]\nrun = 7\n", /:2:.*run/),
  runbook("66 a key twice", `${AGENT}prompt = "y"\n`, /:4:.*twice/),
  runbook("66 a table twice", `${AGENT}${AGENT}`, /:4:/),
  runbook("67 __proto__ as a name", '[agent.__proto__]\nengine = "demo"\nprompt = "x"\n', /:1:.*__proto__/),
  runbook("67 __proto__ as a key", `${AGENT}[agent.a.__proto__]\nprompt = "y"\n`, /:4:.*__proto__/),
  runbook("67 constructor.prototype", '[constructor.prototype]\nrun = ["x"]\n', /:1:.*constructor/),
  runbook("68 100,000 nested arrays", `x = ${"[".repeat(100_000)}${"]".repeat(100_000)}\n`, /deep|nest/),
  runbook("69 a string of 20 MB", `x = "${"a".repeat(20 * 1024 * 1024)}"\n`, /MB|MiB|large|big/),
  runbook("70 an integer beyond 2^53", `${AGENT}max_attempts = 99999999999999999999\n`, /:4:.*beyond 2\^53/),
  runbook("71 nan", `${AGENT}${NUDGE} nan }\n`, /:4:.*nan or infinity/),
  runbook("71 inf", `${AGENT}max_attempts = inf\n`, /:4:.*max_attempts/),
  runbook("72 a date for a duration", `${AGENT}${NUDGE} 2026-11-15 }\n`, NO_DURATION),
  runbook("73 5 parsecs", `${AGENT}${NUDGE} "5 parsecs" }\n`, NO_DURATION),
  runbook("73 a negative duration", `${AGENT}${NUDGE} "-5s" }\n`, NO_DURATION),
  runbook("73 more than a year", `${AGENT}${NUDGE} "366d" }\n`, NO_DURATION),
  runbook(
    "77 HCL that calls a function",
    'agent "a" {\n  engine = "demo"\n  prompt = file("/etc/passwd")\n}\n',
    /:3:.*evaluates nothing/,
    "hcl",
  ),
  runbook(
    "77 HCL that asks the environment",
    'agent "a" {\n  engine = "demo"\n  prompt = "${env.HOME}"\n}\n',
    /:3:.*evaluates nothing/,
    "hcl",
  ),
  runbook("78 a command as one string", '[agent.a]\nrun = "sh -c x"\nprompt = "x"\n', /:2:.*run/),
  runbook("80 a FIFO", FIFO, /regular file/),
  runbook("80 a directory", DIRECTORY, /regular file|directory/),
  runbook("nothing but braces", "{{{{{{{{", /:1:/, "hcl"),
  runbook("JSON that is cut", '{"agent":{"a":{"engine":"demo"', /:1:/, "json"),
  runbook(
    "JSON with a key twice",
    '{"agent":{"a":{"engine":"demo"},"a":{"engine":"demo"}}}',
    /twice|duplicate/i,
    "json",
  ),
  runbook("an ending that there is not", AGENT, /toml/, "yaml"),
  runbook("control characters", `${AGENT}"\\u001b]0;owned\\u0007" = 1\n`, /:4:.*x1b\]0;owned/),
];

/** `issues list` in a separate repository. */
function issues(name: string, path: string, content: Content, says: RegExp, code = 2): Row {
  number += 1;
  const folder = `repository-${number}`;
  return {
    name,
    code,
    says,
    args: (ground) => {
      const root = join(ground.box.root, folder);
      const [directory = "."] = path.split("/");
      mkdirSync(join(root, directory), { recursive: true });
      spawnSync("git", ["init", "-q", root]);
      if (content === FIFO) spawnSync("mkfifo", [join(root, path)]);
      else if (content === DIRECTORY) mkdirSync(join(root, path));
      else writeFileSync(join(root, path), content);
      return ["issues", "list", "--cwd", root];
    },
  };
}

const BEADS = ".beads/issues.jsonl";

const issueFiles: readonly Row[] = [
  issues("issues: a line that is no JSON", BEADS, '{"id":"a-1","title":"x"}\n{"id":\n', /line 2/),
  issues("82 an array instead of lines", BEADS, '[{"id":"a-1","title":"x"}]\n', /line 1/),
  issues("issues: an id that is no id", BEADS, '{"id":"../../x","title":"x"}\n', /line 1|id/),
  issues("issues: an id like an option", BEADS, '{"id":"--upload-pack","title":"x"}\n', /line 1|id/),
  issues(
    "83 an id twice with other words",
    BEADS,
    '{"id":"a-1","title":"x"}\n{"id":"a-1","title":"y"}\n',
    /a-1/,
  ),
  issues("issues: a zero byte", BEADS, '{"id":"a-1","title":"x"}\n\0\n', /line 2|UTF-8|zero/),
  issues("issues: not UTF-8", BEADS, Buffer.from([0x7b, 0xff, 0x7d, 0x0a]), /line 1|UTF-8/),
  issues("issues: a FIFO", BEADS, FIFO, /regular file/),
  issues("issues: front matter without an end", "issues/a-1.md", "---\ntitle: x\n", /line 1.*no end/),
  issues("issues: a field twice", "issues/a-1.md", "---\ntitle: x\ntitle: y\n---\n", /line 3.*twice/),
  issues("issues: a name like an option", "issues/--upload-pack.md", "---\ntitle: x\n---\n", /upload-pack/),
  issues("issues: none at all", "src/x.txt", "", /issues/, 3),
  row3("issues: a repository that is none", ["issues", "list", "--cwd", "/"], 3, /no issues/),
  row3("85 a name with dots", ["issues", "list", "--source", "github", "--repo", "../.."], 2, /--repo|owner/),
  row3(
    "85 a name like an option",
    ["issues", "list", "--source", "github", "--repo", "-x/y"],
    2,
    /--repo|owner/,
  ),
  row3(
    "issues: a source that there is not",
    ["issues", "list", "--source", "jira"],
    2,
    /beads, markdown or github|jira/,
  ),
  row3(
    "issues: an API that is no URL",
    ["issues", "list", "--repo", "a/b", "--api-url", "nope"],
    2,
    /--api-url|nope/,
  ),
  row3(
    "issues: an API by another protocol",
    ["issues", "list", "--repo", "a/b", "--api-url", "file:///etc/passwd"],
    2,
    /--api-url|file:/,
  ),
];

function row3(name: string, args: readonly string[], code: number, says: RegExp): Row {
  return { name, args: () => args, code, says };
}

/** `review --export` of a file of comments. */
function comments(name: string, content: Content, says: RegExp): Row {
  number += 1;
  const base = `comments-${number}.jsonl`;
  return {
    name: `comments: ${name}`,
    code: 2,
    says,
    args: (ground) => [
      "review",
      "acme/shop#1",
      "--export",
      "jsonl",
      "--comments",
      file(ground, base, content),
    ],
  };
}

const GOOD =
  '{"id":1,"body":"x","author":"a","author_association":"MEMBER","file_path":"a.ts","line_number":1,"created_at":"2026-04-14T16:00:49Z"}\n';

const commentFiles: readonly Row[] = [
  comments("cut in the middle", GOOD.slice(0, 40), /line 1/),
  comments("without a body", '{"id":1}\n', /line 1/),
  comments("an id of the wrong kind", GOOD.replace('"id":1', '"id":{}'), /line 1/),
  comments("a time that is none", GOOD.replace("2026-04-14T16:00:49Z", "soon"), /line 1/),
  comments("100,000 nested", `${"[".repeat(100_000)}\n`, /JSON array/),
  comments("not UTF-8", Buffer.from([0x7b, 0xff, 0x7d, 0x0a]), /UTF-8|line 1/),
  comments("a FIFO", FIFO, /regular file/),
  comments("a directory", DIRECTORY, /regular file|directory/),
  row3(
    "84 a pull request on another host",
    ["review", "https://evil.example/acme/shop/pull/1", "--export", "jsonl"],
    2,
    /evil\.example/,
  ),
  row3("85 a pull request with dots", ["review", "../..#1", "--export", "jsonl"], 2, /pull request|owner/),
  row3("a pull request of number 0", ["review", "acme/shop#0", "--export", "jsonl"], 2, /0|number/),
  row3(
    "a pull request beyond all numbers",
    ["review", "acme/shop#99999999999999999999", "--export", "jsonl"],
    2,
    /number|pull request/,
  ),
  row3("115 a session id like an option", ["adopt", "codex", "--settings={}"], 2, /settings/),
  row3("115 a session id like a path", ["adopt", "codex", "../../x"], 3, /no conversation/),
  row3("115 a session id of 10 KB", ["adopt", "claude", "a".repeat(10_000)], 3, /no conversation/),
];

export const fileRows: readonly Row[] = [...runbooks, ...issueFiles, ...commentFiles];

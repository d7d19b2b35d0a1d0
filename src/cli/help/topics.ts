/**
 * The concepts that `reprise help <topic>` explains, so short that a terminal of 24 lines shows the whole text. A topic
 * never has the name of a command. Indented lines stay as they are, other lines are paragraphs.
 */
import { wrap } from "../../lib/wrap.ts";
import { EXIT_CODES } from "./exit-codes.ts";

export interface Topic {
  readonly summary: string;
  readonly text: string;
}

export const TOPICS: Readonly<Record<string, Topic>> = {
  runs: {
    summary: "runs, attempts, handles, and where they are stored",
    text: `A run is one task for one engine in one directory. Its handle is eight hexadecimal
characters such as 1a2b3c4d and never changes. The first four are often enough.

Every start of the agent's program within a run is an attempt, numbered from 1.
An attempt ends as completed, failed, interrupted, cancelled or diverged. A run
whose process was killed is listed as interrupted, and you can resume it.

  reprise start codex "fix the flaky test"     a new run
  reprise list                                 all runs
  reprise show 1a2b                            one run with its attempts
  reprise logs 1a2b                            what the agent said and did

Reprise stores a run before it starts the agent, and every byte of output as it
arrives. It keeps everything in one state directory that only you can read:
$REPRISE_HOME, else $XDG_STATE_HOME/reprise, else ~/.local/state/reprise.`,
  },
  resuming: {
    summary: "how a conversation continues, and how Reprise proves it",
    text: `\`reprise resume HANDLE "message"\` continues the same conversation with the engine,
options, rights and directory of the run. You type no session id and no flags.

The proof is in the receipt of the attempt: the id that Reprise asked for and the
id that the engine reported. \`reprise show HANDLE\` prints it. If the engine
answers in another conversation, the attempt is diverged and the exit code is 1.

  reprise resume 1a2b "go on"          send a message to the same conversation
  reprise resume 1a2b                  open the engine's UI again
  reprise resume 1a2b --dry-run        print the native command; run nothing
  reprise resume 1a2b --fork "try B"   continue a copy as a new run
  reprise resume 1a2b --force-fresh "…"  begin a new conversation, on purpose

Reprise keeps a copy of the engine's session. If the engine has lost the session,
the resume restores the copy first and says so. Reprise changes a damaged session
only if you pass --restore-copy; --ignore-copy continues with a shorter session.`,
  },
  sessions: {
    summary: "the engine's own conversations, their copies, and how to adopt one",
    text: `A session is the engine's own conversation with its own id. Reprise records the
id as soon as the engine reports it, and never takes an id from the model's words.

Reprise links and copies the session while the agent works, so a session that is
deleted or cut short can be restored, even after \`kill -9\`. The config key escrow
limits the size of these copies; "off" and --no-escrow switch them off.

Adopt a conversation that began outside Reprise to make it a run:

  reprise adopt                     conversations of this directory
  reprise adopt --all               conversations of every directory
  reprise adopt codex ID            turn one of them into a run

A session has one writer: Reprise refuses a second agent with exit code 4.`,
  },
  rights: {
    summary: "what an agent may do, and why a resume never widens it",
    text: `The rights of an agent are its sandbox, approval and permission options, its trust
in the folder, and variables and files that they name. You set them at the start,
with the engine's own options:

  reprise start codex "fix it" -- --sandbox workspace-write
  reprise start claude "fix it" -- --permission-mode acceptEdits

A resume passes the same options again. If it cannot keep the rights exactly,
Reprise refuses and names the option. A resume may narrow the rights, but never
widens them.

A folder's own settings can run programs. Reprise asks before it uses them; in
scripts, --trust-cwd answers yes for this folder and its current content.`,
  },
  "native-options": {
    summary: "options of the engine itself, after --",
    text: `Everything after -- goes to the engine, unchanged and without a shell:

  reprise start codex "fix it" -- --model gpt-5
  reprise start claude -- --resume 0199a3f2-7c1e-7d33-9b1a-3f4e5d6c7b8a

A resume reuses the options of the run. To change options that do not widen the
rights, for example the model, pass them word by word:

  reprise resume 1a2b "go on" --native --model --native gpt-5

Options for every start of an engine belong in the config:

  [engines.codex]
  args = ["--model", "gpt-5"]`,
  },
  isolation: {
    summary: "a separate directory or worktree for a run, and its removal",
    text: `An agent works in the current directory unless you choose another one:

  reprise start codex "try it" --cwd ../other        another directory
  reprise start codex "try it" --isolate worktree    a new git worktree
  reprise start codex "try it" --isolate dir         a new, empty directory

A worktree begins at your last commit, so the agent's work is separate from yours.
\`reprise show HANDLE\` names its directory. Look at the result there, and merge or
copy what you want with git.

\`reprise rm\` and \`reprise prune\` refuse to remove a worktree with work that is
stored nowhere else. Isolation separates files. It is not a sandbox: the engine's own
sandbox options limit what an agent can reach.`,
  },
  background: {
    summary: "runs without a terminal: start --detach, attach, stop",
    text: `  reprise start codex "fix it" --detach   run in the background
  reprise attach 1a2b                     show it live; Ctrl-] detaches
  reprise logs 1a2b -f                    follow its messages and tool calls
  reprise stop 1a2b                       end it; you can resume it later

A background run belongs to no terminal and keeps running after you log out. After a
reboot, \`reprise list\` shows it as interrupted, and \`reprise resume\` continues
its conversation.

To have Reprise watch an agent and react, use a runbook: reprise help supervision`,
  },
  supervision: {
    summary: "supervised agents, the daemon and decisions",
    text: `A supervised agent runs in the background under a runbook. The daemon watches it
and reacts when it idles, dies, hits a limit or asks for permission. It never
types into a permission prompt.

  reprise agent run worker           start the agent that a runbook defines
  reprise status --watch             state of every agent, and what happens next
  reprise agent attach 1a2b          its UI in your terminal; Ctrl-] detaches
  reprise agent resume --all         after a reboot: continue every conversation

When the runbook has no answer, the agent waits for your decision:

  reprise decisions                  open questions
  reprise decisions show ID          the facts and the numbered options
  reprise decisions resolve ID 1     your answer

The daemon starts with the first agent. If the daemon stops, agents keep running.`,
  },
  runbooks: {
    summary: "files that define agents, their reactions, and pipelines",
    text: `A runbook is a TOML, HCL or JSON file in the folder runbooks/ of the project or of
your config directory. It defines agents, and how Reprise reacts to them:

  [agent.worker]
  run = "claude --permission-mode acceptEdits"
  prompt = "Work through TODO.md, one item at a time."
  on_idle = { action = "nudge", message = "Go on with the next item." }
  on_dead = { action = "resume", message = "Go on.", append = true }
  on_error = { action = "escalate" }

  reprise runbook check              every mistake as file:line:column
  reprise runbook list               the agents and pipelines that you can start
  reprise agent run worker           start one
  reprise pipeline run ci            run the steps of a pipeline in order

A project's runbook decides what runs here, so Reprise asks for your trust first.
docs/runbooks.md describes every key.`,
  },
  batches: {
    summary: "work through the issues of a repository",
    text: `\`reprise issues run\` gives each ready issue to an agent on its own branch, runs the
gate commands of your config on the result, and closes the issue when they pass.
Issues come from Beads, Markdown files or GitHub.

  reprise issues run --dry-run                         the plan; runs nothing
  reprise issues run --engine claude --max-agents 3    three agents at a time
  reprise issues run --resume                          after Ctrl-C or a crash

With --resume, every issue continues in its own conversation. --access read, edit
or full limits what the agents may do. An issue whose agent changed nothing stays
open. docs/issues.md has a five-minute example with the demo agent.`,
  },
  reviews: {
    summary: "let Codex address the comments of a pull request",
    text: `\`reprise review\` shows the review comments of a pull request in a terminal UI and
lets Codex address the ones you select. Codex starts read-only and asks before it
does more. If the machine dies, the same command resumes the same thread.

  reprise review https://github.com/acme/shop/pull/42
  reprise review acme/shop#42 --run --resume auto --json     for scripts and CI

Comments are untrusted: Reprise gives them to Codex as data, not as instructions.`,
  },
  configuration: {
    summary: "config files, their keys, and trust",
    text: `Reprise reads two TOML files with the same keys; the project's overrides yours:

  ~/.config/reprise/config.toml    yours
  reprise.toml                     the project's, in this folder or above

  escrow = 256                 copy sessions of up to 256 MB, or "off"
  idle_timeout = "15m"         end an attempt that shows no sign of life
  tool_timeout, timeout        the same for one tool call, and for the attempt
  [engines.codex]              program, args, env, home
  [issues], [issues.gate]      what agents of a batch may do, and their checks
  [notify]                     command or webhook; only in your own file

Keys of a project's file that decide what runs need your trust. An invalid key stops
every command that starts agents; other commands warn and use defaults.
docs/config.md describes every key, and how to add an engine.`,
  },
  scripts: {
    summary: "--json, exit codes and quiet output for scripts",
    text: `With --json, stdout holds exactly one object. Its field ok is true exactly when the
exit code is 0; otherwise error has a code, a message and facts. Times are UTC.

  reprise start codex "fix it" --json | jq -r .text
  reprise list --json | jq -r '.runs[] | select(.status=="interrupted").handle'
  reprise list --handles                one handle per line

Results go to stdout; progress, warnings and summaries go to stderr. A command asks
questions only on a terminal. In scripts, give the answer as an option, such as
--trust-cwd. Colours appear only on a terminal, and never with NO_COLOR.

Exit codes: reprise help exit-codes`,
  },
  "exit-codes": {
    summary: "the meaning of every exit code",
    text: [
      ...Object.entries(EXIT_CODES).flatMap(([code, means]) =>
        wrap(`  ${code.padStart(3)}  ${means}`, { width: 80, indent: 7 }),
      ),
      "",
      "With --json, error.code names the fault. docs/errors.md lists every fault.",
    ].join("\n"),
  },
};

interface Part {
  readonly lines: readonly string[];
  /** Lines that may be joined and wrapped. */
  readonly isProse: boolean;
}

/** Paragraphs, and the lines between them. */
export function partsOf(text: string): readonly Part[] {
  const parts: { lines: string[]; isProse: boolean }[] = [];
  for (const line of text.split("\n")) {
    const isProse = /^\S/.test(line);
    const last = parts.at(-1);
    if (last?.isProse === isProse) last.lines.push(line);
    else parts.push({ lines: [line], isProse });
  }
  return parts;
}

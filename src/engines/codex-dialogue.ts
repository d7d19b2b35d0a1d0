/**
 * The command that opens a conversation with `codex app-server`, from the same options as `codex exec`.
 *
 * The server silently ignores most of them on its command line, so they become fields of the protocol; an option
 * without such a field is refused.
 */
import { resolve } from "node:path";
import { Fault } from "../core/faults.ts";
import { parseJson } from "../lib/json.ts";
import { describeHeld, grammar, heldRights, saysSandbox, settingIn } from "./codex-options.ts";
import { ID } from "./codex-output.ts";
import { codexDialogue, type DialoguePlan } from "./codex-server.ts";
import { heldTrust, trustNamed } from "./codex-trust.ts";
import type { Approval, AttemptRequest, Command } from "./engine.ts";
import {
  assertComplete,
  assertNoPrompt,
  describe,
  type Given,
  has,
  lastWins,
  parseArgs,
  render,
  valueOf,
} from "./grammar.ts";
import { override } from "./attempt-options.ts";

/** Options that the server accepts itself. */
const OWN = ["--config", "--enable", "--disable", "--strict-config"];
/** Options that are fields of the protocol. */
const FIELDS = [
  "--model",
  "--sandbox",
  "--cd",
  "--ask-for-approval",
  "--dangerously-bypass-approvals-and-sandbox",
];
/** Options without a meaning for a server: it prints no colours and checks no repository. */
const MOOT = ["--color", "--skip-git-repo-check", "--json", "--no-daemon", "--no-alt-screen"];
const SANDBOXES = ["read-only", "workspace-write", "danger-full-access"];

export function dialogueCommand(ask: AttemptRequest, approval: Approval): Command {
  const { kind, message } = ask;
  if (kind === "fork" || ask.interactive) {
    throw new Fault("engine_cannot", "A conversation with the Codex server cannot fork or open its UI.");
  }
  if (message === null) throw new Fault("message_invalid", "The Codex server needs a message.");
  const session = kind === "resume" ? sessionOf(ask) : null;
  const { options, dropped, rights } = optionsOf(ask);
  const parsed = { commands: [], words: [], options };
  assertApproval(valueOf(parsed, "--ask-for-approval"), approval);
  const model = valueOf(parsed, "--model") ?? settingIn(options, "model");
  const effort = session === null ? undefined : settingIn(options, "model_reasoning_effort");
  const plan: DialoguePlan = {
    message,
    session,
    cwd: resolve(ask.cwd, valueOf(parsed, "--cd") ?? "."),
    sandbox: sandboxOf(options),
    approval,
    ...limitsOf(options),
    ...(model === undefined || model === null ? {} : { model }),
    ...(effort === undefined ? {} : { config: { model_reasoning_effort: effort } }),
  };
  const own = options.filter((option) => isOneOf(OWN, option));
  const told = options.filter((option) => isOneOf(OWN, option) && !rights.includes(option));
  const fields = options.filter((option) => isOneOf(FIELDS, option) && !rights.includes(option));
  return {
    args: ["app-server", ...render(own)],
    stdin: null,
    env: {},
    headless: true,
    structured: true,
    expects: session,
    options: {
      kept: describe([...told, ...fields]),
      dropped,
      rewritten: rewritten(plan, rights, saysSandbox(parsed)),
    },
    ...warn(ask, plan, trustNamed(ask, parsed) === "untrusted"),
    dialogue: (now) => codexDialogue(plan, now),
  };
}

/** Whether recorded arguments come from `dialogueCommand`; words that start the program may precede them. */
export function isDialogue(args: readonly string[]): boolean {
  const at = args.indexOf("app-server");
  const before = args.slice(0, at);
  return at !== -1 && !before.some((word) => word.startsWith("-") || word === "exec" || word === "e");
}

function sessionOf({ session }: AttemptRequest): string {
  if (session !== null && ID.test(session)) return session;
  throw new Fault("session_unknown", `${JSON.stringify(session)} is not a Codex thread id.`);
}

/** The recorded and own options of this attempt, each known to have its effect. */
function optionsOf(ask: AttemptRequest): {
  readonly options: readonly Given[];
  readonly dropped: readonly string[];
  readonly rights: readonly Given[];
} {
  const recorded = parseArgs(grammar, ask.given, ask.givenHasNoPrompt);
  const [command, second] = recorded.commands;
  const isStart = ask.kind === "start";
  if (isStart) {
    if (second !== undefined || (command !== undefined && command !== "exec")) {
      throw new Fault(
        "usage",
        `\`codex ${recorded.commands.join(" ")}\` is not a conversation with the server.`,
      );
    }
    assertNoPrompt(recorded);
  }
  const merged = override(recorded, parseArgs(grammar, ask.native, true));
  assertComplete(merged);
  const rights = isStart ? [] : [...heldRights(ask, merged), ...heldTrust(ask, merged)];
  const leftOut = (option: Given) => isMoot(option, isStart);
  // Behind, since of a setting that is given twice the last one counts.
  const all = [...lastWins(merged.options), ...rights];
  const options = all.filter((option) => !leftOut(option));
  const unkept = options.find((option) => !isOneOf([...OWN, ...FIELDS], option));
  if (unkept !== undefined) {
    throw new Fault("option_unkept", `The Codex server cannot keep the option ${unkept.name}.`, {
      facts: { option: unkept.name },
    });
  }
  assertNoProfile(options);
  const words = recorded.words.map((word) => JSON.stringify(word));
  return { options, dropped: [...describe(all.filter(leftOut)), ...words], rights };
}

/** A thread gets its sandbox by name, which switches a permission profile off. */
function assertNoProfile(options: readonly Given[]): void {
  if (settingIn(options, "default_permissions") === undefined) return;
  throw new Fault(
    "option_unkept",
    "A conversation with the Codex server gets a sandbox, which would switch its permission profile off (default_permissions). Use `codex exec` (`reprise start codex`, `reprise resume`) to work with the profile.",
    { facts: { option: "default_permissions" } },
  );
}

/** The option concerns only output, or only the turn or session that it was given for. */
function isMoot(option: Given, start: boolean): boolean {
  return isOneOf(MOOT, option) || (!start && option.native === undefined && option.spec?.bears !== undefined);
}

function isOneOf(names: readonly string[], { spec }: Given): boolean {
  return spec !== null && names.includes(spec.names[0] ?? "");
}

/** Whatever the config says, the agent writes only if the run asks for it. `--yolo` overrides the others. */
function sandboxOf(options: readonly Given[]): string {
  const parsed = { commands: [], words: [], options };
  if (has(parsed, "--yolo")) return "danger-full-access";
  const mode = valueOf(parsed, "--sandbox") ?? settingIn(options, "sandbox_mode") ?? "read-only";
  if (SANDBOXES.includes(mode)) return mode;
  throw new Fault("usage", `Codex has no sandbox ${JSON.stringify(mode)}.`, { facts: { option: "-s" } });
}

/** The options for a writing sandbox, to check the answer against. */
function limitsOf(options: readonly Given[]): Pick<DialoguePlan, "network" | "roots"> {
  const network = settingIn(options, "sandbox_workspace_write.network_access");
  const roots = parseJson(settingIn(options, "sandbox_workspace_write.writable_roots") ?? "");
  return {
    ...(network === "false" ? { network: false } : {}),
    ...(Array.isArray(roots) ? { roots: roots.filter((root) => typeof root === "string") } : {}),
  };
}

function assertApproval(given: string | null | undefined, approval: Approval): void {
  if (given === undefined || given === approval) return;
  throw new Fault("option_unkept", `The option -a ${given} and the approval policy ${approval} differ.`, {
    facts: { option: "-a" },
  });
}

function rewritten(plan: DialoguePlan, rights: readonly Given[], told: boolean): readonly string[] {
  return told || rights.length > 0 ? describeHeld(rights) : [`no sandbox option → -s ${plan.sandbox}`];
}

function warn(
  { trustCwd }: AttemptRequest,
  { sandbox, cwd }: DialoguePlan,
  held: boolean,
): { warnings?: readonly string[] } {
  if (trustCwd || sandbox === "read-only") return {};
  const warning = held
    ? `With a writable sandbox Codex would trust ${cwd} for good and take settings from it; Reprise prevents that. --trust-cwd allows it.`
    : `With a writable sandbox Codex itself may record ${cwd} as trusted in its config.toml and take settings, programs and rules from .codex/ in it, also outside the sandbox. --trust-cwd accepts this.`;
  return { warnings: [warning] };
}

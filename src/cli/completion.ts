/**
 * `reprise completion`: shell scripts that complete commands, options, engines and handles.
 *
 * At each Tab, options come from the command's help and handles from the index, so the scripts never become outdated.
 */
import { Fault } from "../core/faults.ts";
import { ENGINES } from "../engines/engines.ts";
import { nearest } from "../lib/suggest.ts";
import { COMMANDS } from "./cli.ts";
import { makeCommand, parse } from "./command.ts";
import type { Context } from "./context.ts";
import { STATUSES } from "./words.ts";

const SHELLS = { bash, zsh, fish } as const;

const command = () =>
  makeCommand({
    name: "completion",
    summary: "Print shell completion for bash, zsh or fish.",
    examples: [
      "reprise completion bash > ~/.local/share/bash-completion/completions/reprise",
      "reprise completion zsh > ~/.zfunc/_reprise      (with ~/.zfunc in fpath)",
      "reprise completion fish > ~/.config/fish/completions/reprise.fish",
    ],
  }).argument("[shell]", "bash, zsh or fish");

export async function run(args: readonly string[], context: Context): Promise<number> {
  const parser = command();
  parse(parser, args);
  const [shell = ""] = parser.args;
  if (!Object.hasOwn(SHELLS, shell)) {
    const near = nearest(shell, Object.keys(SHELLS));
    const hint = near === null ? "" : ` Did you mean ${near}?`;
    throw new Fault("usage", `Which shell: bash, zsh or fish?${hint} As in: reprise completion bash`);
  }
  context.print(SHELLS[shell as keyof typeof SHELLS]());
  return 0;
}

const HANDLE_COMMANDS = ["resume", "show", "logs", "export", "stop", "rm"];
const ENGINE_COMMANDS = ["start", "adopt"];
/** Commands with verbs, and the command that prints the ids for most of their verbs. Null: no ids. */
const FAMILIES: Readonly<Record<string, { readonly verbs: string; readonly ids: string | null }>> = {
  agent: { verbs: "run list show logs peek attach send stop resume rm", ids: "list --handles" },
  pipeline: { verbs: "run list show resume cancel", ids: "pipeline list --all --ids" },
  decisions: { verbs: "list show resolve", ids: "decisions list --ids" },
  issues: { verbs: "run list show sessions status logs clean", ids: null },
  daemon: { verbs: "start stop status logs", ids: null },
};
/** Completions for an option's value. */
const VALUES: Readonly<Record<string, string>> = {
  "--mode": "auto pipe pty",
  "--isolate": "dir worktree",
  "--stream": "pty-output stdout stderr events timing",
  "--status": STATUSES.join(" "),
};

const commands = () => Object.keys(COMMANDS).join(" ");
const families = () => Object.keys(FAMILIES).join("|");
const engines = () => ENGINES.map((engine) => engine.id).join(" ");

function bash(): string {
  const values = Object.entries(VALUES).map(
    ([option, words]) => `    ${option}) _reprise_words "${words}"; return ;;`,
  );
  const verbs = Object.entries(FAMILIES).map(([name, { verbs: words, ids }]) => {
    const rest = ids === null ? ":" : `_reprise_words "$(reprise ${ids} 2>/dev/null)"`;
    return `    ${name}) if ((COMP_CWORD == 2)); then _reprise_words "${words}"; else ${rest}; fi ;;`;
  });
  return `# bash completion for reprise
_reprise_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }
_reprise() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD - 1]}" cmd="\${COMP_WORDS[1]}"
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then _reprise_words "${commands()} help --help --version"; return; fi
  case "$prev" in
    --engine|--certify) _reprise_words "${engines()}"; return ;;
    --cwd) mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    --message-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
${values.join("\n")}
  esac
  if [[ $cur == -* ]]; then
    local verb=""
    case "$cmd" in ${families()}) ((COMP_CWORD > 2)) && verb="\${COMP_WORDS[2]}" ;; esac
    _reprise_words "$(reprise "$cmd" $verb --help 2>/dev/null | grep -oE -e '--[a-z][a-z-]*' | sort -u)"
    return
  fi
  case "$cmd" in
    ${HANDLE_COMMANDS.join("|")}) _reprise_words "$(reprise list --handles 2>/dev/null)" ;;
    ${ENGINE_COMMANDS.join("|")}) ((COMP_CWORD == 2)) && _reprise_words "${engines()}" ;;
${verbs.join("\n")}
    completion) _reprise_words "bash zsh fish" ;;
    runbook)
      if ((COMP_CWORD == 2)); then _reprise_words "check list"
      else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi ;;
    help) _reprise_words "${commands()}" ;;
    *) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
  esac
}
complete -F _reprise reprise`;
}

function zsh(): string {
  const summaries = Object.entries(COMMANDS).map(
    ([name, { summary }]) => `    '${name}:${summary.replaceAll("'", "'\\''")}'`,
  );
  const values = Object.entries(VALUES).map(
    ([option, words]) => `    ${option}) compadd -- ${words}; return ;;`,
  );
  const verbs = Object.entries(FAMILIES).map(([name, { verbs: words, ids }]) => {
    const rest = ids === null ? ":" : `compadd -- \${(f)"$(reprise ${ids} 2>/dev/null)"}`;
    return `    ${name}) if ((CURRENT == 3)); then compadd -- ${words}; else ${rest}; fi ;;`;
  });
  return `#compdef reprise
_reprise() {
  local cmd="$words[2]" prev="$words[CURRENT-1]" cur="$words[CURRENT]"
  local -a commands=(
${summaries.join("\n")}
  )
  if ((CURRENT == 2)); then _describe command commands; return; fi
  case "$prev" in
    --engine|--certify) compadd -- ${engines()}; return ;;
    --cwd) _files -/; return ;;
    --message-file) _files; return ;;
${values.join("\n")}
  esac
  if [[ $cur == -* ]]; then
    local verb=()
    case "$cmd" in ${families()}) ((CURRENT > 3)) && verb=("$words[3]") ;; esac
    compadd -- \${(f)"$(reprise "$cmd" $verb --help 2>/dev/null | grep -oE -e '--[a-z][a-z-]*' | sort -u)"}
    return
  fi
  case "$cmd" in
    ${HANDLE_COMMANDS.join("|")}) compadd -- \${(f)"$(reprise list --handles 2>/dev/null)"} ;;
    ${ENGINE_COMMANDS.join("|")}) ((CURRENT == 3)) && compadd -- ${engines()} ;;
${verbs.join("\n")}
    completion) compadd -- bash zsh fish ;;
    runbook) if ((CURRENT == 3)); then compadd -- check list; else _files; fi ;;
    help) _describe command commands ;;
    *) _files ;;
  esac
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _reprise "$@"; else compdef _reprise reprise; fi`;
}

function fish(): string {
  const summaries = Object.entries(COMMANDS).map(
    ([name, { summary }]) =>
      `complete -c reprise -n __fish_use_subcommand -f -a ${name} -d '${summary.replaceAll("'", "\\'")}'`,
  );
  const values = Object.entries(VALUES).map(
    ([option, words]) =>
      `complete -c reprise -n 'not __fish_use_subcommand' -l ${option.slice(2)} -x -a '${words}'`,
  );
  const verbs = Object.entries(FAMILIES).flatMap(([name, { verbs: words, ids }]) => [
    `complete -c reprise -n '__fish_seen_subcommand_from ${name}; and test (count (commandline -opc)) -eq 2' -a '${words}'`,
    ...(ids === null
      ? []
      : [
          `complete -c reprise -n '__fish_seen_subcommand_from ${name}; and test (count (commandline -opc)) -gt 2' -a '(reprise ${ids} 2>/dev/null)'`,
        ]),
  ]);
  return `# fish completion for reprise
function __reprise_options
  set -l words (commandline -opc)
  string match -q -- '-*' (commandline -ct); or return
  set -l verb
  if contains -- $words[2] ${Object.keys(FAMILIES).join(" ")}
    set verb $words[3]
  end
  reprise $words[2] $verb --help 2>/dev/null | string match -r -a -- '--[a-z][a-z-]*' | sort -u
end
complete -c reprise -f
${summaries.join("\n")}
complete -c reprise -n 'not __fish_use_subcommand' -a '(__reprise_options)'
complete -c reprise -n '__fish_seen_subcommand_from ${HANDLE_COMMANDS.join(" ")}' -a '(reprise list --handles 2>/dev/null)'
complete -c reprise -n '__fish_seen_subcommand_from ${ENGINE_COMMANDS.join(" ")}' -a '${engines()}'
${verbs.join("\n")}
complete -c reprise -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'
complete -c reprise -n '__fish_seen_subcommand_from runbook' -a 'check list'
complete -c reprise -n '__fish_seen_subcommand_from runbook' -F
complete -c reprise -n '__fish_seen_subcommand_from help' -a '${commands()}'
complete -c reprise -n 'not __fish_use_subcommand' -l engine -x -a '${engines()}'
complete -c reprise -n 'not __fish_use_subcommand' -l cwd -x -a '(__fish_complete_directories)'
complete -c reprise -n 'not __fish_use_subcommand' -l message-file -r
${values.join("\n")}`;
}

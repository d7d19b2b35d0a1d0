/**
 * `reprise completion`: shell scripts that complete commands, options and values. At each Tab a script asks
 * `reprise completion words`, which reads the declarations, so an installed script never becomes outdated.
 */
import { Fault } from "../core/faults.ts";
import { nearest } from "../lib/suggest.ts";
import { defineCommand } from "./define.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;

export const command = defineCommand({
  name: "completion",
  summary: "Print shell completion for bash, zsh or fish.",
  usage: "<shell>",
  args: { shell: { help: "bash, zsh or fish; the scripts themselves use `words -- …`", values: SHELLS } },
  dashes: "words",
  examples: [
    "reprise completion bash > ~/.local/share/bash-completion/completions/reprise",
    "reprise completion zsh > ~/.zfunc/_reprise      (with ~/.zfunc in fpath)",
    "reprise completion fish > ~/.config/fish/completions/reprise.fish",
  ],
  run: async ({ args: { shell = "" }, rest }, context) => {
    if (shell === "words") {
      const { complete } = await import("./complete.ts");
      for (const line of await complete(rest ?? [], context)) context.print(line);
      return 0;
    }
    const found = SHELLS.find((one) => one === shell);
    if (found === undefined) {
      const near = nearest(shell, SHELLS);
      const hint = near === null ? "" : ` Did you mean ${near}?`;
      throw new Fault("usage", `Which shell: bash, zsh or fish?${hint} As in: reprise completion bash`);
    }
    context.print(SCRIPTS[found]);
    return 0;
  },
});

/** A line is a word, and after a tab its description; `:files` and `:directories` leave the words to the shell. */
const SCRIPTS = {
  bash: `# bash completion for reprise
_reprise() {
  local cur="\${COMP_WORDS[COMP_CWORD]}"
  mapfile -t COMPREPLY < <(reprise completion words -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1)
  case "\${COMPREPLY[0]-}" in
    :files) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    :directories) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
  esac
}
complete -F _reprise reprise`,
  zsh: `#compdef reprise
_reprise() {
  local -a found=("\${(@f)$(reprise completion words -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  case "$found[1]" in
    "") ;;
    :files) _files ;;
    :directories) _files -/ ;;
    *) found=("\${(@)found/$'\\t'/:}"); _describe reprise found ;;
  esac
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _reprise "$@"; else compdef _reprise reprise; fi`,
  fish: `# fish completion for reprise
function __reprise_words
  set -l words (commandline -opc) (commandline -ct)
  set -l found (reprise completion words -- $words[2..] 2>/dev/null)
  switch "$found[1]"
    case :files
      __fish_complete_path (commandline -ct)
    case :directories
      __fish_complete_directories (commandline -ct)
    case '*'
      printf '%s\\n' $found
  end
end
complete -c reprise -f -a '(__reprise_words)'`,
} as const;

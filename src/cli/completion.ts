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
  args: { shell: { help: "bash, zsh or fish", values: SHELLS } },
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
      throw new Fault("usage", `Which shell: bash, zsh or fish?${hint} Example: reprise completion bash`);
    }
    context.print(SCRIPTS[found]);
    return 0;
  },
});

/**
 * A line is a word, and after a tab its description; `:files` and `:directories` leave the words to the shell. The words
 * go to Reprise without quotes and come back without them. Bash splits words at `=` and `:` as well, so its script joins
 * them, and returns only the part after the last of these signs.
 */
const SCRIPTS = {
  bash: `# bash completion for reprise
_reprise() {
  local rest="\${COMP_LINE:0:COMP_POINT}" word quote="" prefix="" words=() found=()
  for word in "\${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
    if ((\${#words[@]} == 0)) || [[ $rest == [[:space:]]* ]]; then
      rest="\${rest#"\${rest%%[![:space:]]*}"}"
      words+=("")
    fi
    [[ $rest == "$word"* ]] || word=$rest
    words[-1]+=$word
    rest="\${rest#"$word"}"
  done
  local cur="\${words[-1]}"
  if [[ $cur == [\\"\\']* ]]; then quote="\${cur:0:1}" cur="\${cur:1}"; else cur="\${cur//\\\\/}"; fi
  [[ -z $quote && $cur == *[=:]* && $COMP_WORDBREAKS == *[=:]* ]] && prefix="\${cur%"\${cur##*[=:]}"}"
  words[-1]=$cur
  mapfile -t found < <(reprise completion words -- "\${words[@]:1}" 2>/dev/null | cut -f1)
  COMPREPLY=()
  case "\${found[0]-}" in
    :files) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    :directories) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    *) for word in "\${found[@]}"; do
        word="\${word#"$prefix"}"
        [[ -n $quote ]] || printf -v word %q "$word"
        COMPREPLY+=("$word")
      done ;;
  esac
}
complete -F _reprise reprise`,
  zsh: `#compdef reprise
_reprise() {
  local -a found=("\${(@f)$(reprise completion words -- "\${(@Q)words[2,CURRENT-1]}" "\${(Q)PREFIX}" 2>/dev/null)}")
  case "$found[1]" in
    "") ;;
    :files) _files ;;
    :directories) _files -/ ;;
    *) found=("\${(@)found//\\\\/\\\\\\\\}"); found=("\${(@)found//:/\\\\:}"); found=("\${(@)found/$'\\t'/:}"); _describe reprise found ;;
  esac
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _reprise "$@"; else compdef _reprise reprise; fi`,
  fish: `# fish completion for reprise
function __reprise_words
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -l plain (string unescape -- $current; or string replace -r '^["\\']' '' -- $current)
  set -l found (reprise completion words -- $words[2..] "$plain" 2>/dev/null)
  switch "$found[1]"
    case :files
      __fish_complete_path $current
    case :directories
      __fish_complete_directories $current
    case '*'
      printf '%s\\n' $found
  end
end
complete -c reprise -f -a '(__reprise_words)'`,
} as const;

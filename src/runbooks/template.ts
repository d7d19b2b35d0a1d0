/** Finds, checks and fills `${var.NAME}` in texts. A filled-in value is never scanned again. */
import { nearest } from "../lib/suggest.ts";

/** `$${` is a plain `${`. */
const TEMPLATE = /\$\$\{|\$\{([^}\n]*)(\}?)/g;
/** In a prompt file only `${var.` begins a template: prompts show code, and code contains `${`. */
const FILE_TEMPLATE = /\$\$\{(?=var\.)|\$\{(var\.[^}\n]*)(\}?)/g;
const REFERENCE = /^var\.([A-Za-z_][A-Za-z0-9_]*)$/;

export interface TemplateProblem {
  readonly index: number;
  readonly why: string;
}

/** `names`: the existing variables. */
export function templateProblems(
  text: string,
  names: readonly string[],
  kind: "value" | "file" = "value",
): TemplateProblem[] {
  return [...text.matchAll(kind === "file" ? FILE_TEMPLATE : TEMPLATE)].flatMap((match) => {
    const why = match[1] === undefined ? null : templateFault(match[1], match[2] === "}", names);
    return why === null ? [] : [{ index: match.index, why }];
  });
}

function templateFault(inside: string, closed: boolean, names: readonly string[]): string | null {
  if (!closed) return 'contains "${" without "}". Write $${ for a plain ${';
  const shown = `\${${inside.slice(0, 60)}}`;
  if (inside.trim() === "prompt")
    return `contains ${shown}; Reprise passes the prompt to the engine itself, so remove it`;
  const name = REFERENCE.exec(inside)?.[1];
  if (name === undefined)
    return `contains ${shown}; Reprise fills in only \${var.NAME}. Write $\${ for a plain \${`;
  if (names.includes(name)) return null;
  const near = nearest(name, names);
  if (near !== null) return `names the unknown variable ${name}. Did you mean ${near}?`;
  return names.length === 0
    ? `names the variable ${name}, but vars declares none`
    : `names the unknown variable ${name}; vars declares ${names.join(", ")}`;
}

/** For texts without misfits; a variable without a value stays as written. */
export function filled(
  text: string,
  values: ReadonlyMap<string, string>,
  kind: "value" | "file" = "value",
): string {
  return text.replaceAll(kind === "file" ? FILE_TEMPLATE : TEMPLATE, (whole, inside: string | undefined) => {
    if (inside === undefined) return "${";
    return values.get(REFERENCE.exec(inside)?.[1] ?? "") ?? whole;
  });
}

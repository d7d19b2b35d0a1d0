/**
 * Finds known texts inside another text in every encoding: base64, percent codes, JSON and shell escapes, several of
 * these nested, colour codes in between. Takes linear time.
 */

export interface Span {
  readonly from: number;
  readonly to: number;
}

/** A text to find, and the mark that replaces it. */
type Needle = readonly [text: string, mark: string];

export class Finder {
  /** Searched in the text as given. */
  readonly #raw: readonly Needle[];
  /** Searched in the decoded text, where `+` counts as a blank. */
  readonly #decoded: readonly Needle[];

  /** Leaves out forms shorter than `shortest`: ordinary text contains them. */
  constructor(known: readonly Needle[], shortest: number) {
    const raw = new Map<string, string>();
    const decoded = new Map<string, string>();
    for (const [value, mark] of known) {
      const forms = [value, ...base64Of(value)].filter((form) => form.length >= shortest);
      for (const form of [...forms, ...forms.slice(0, 1).map((one) => one.replaceAll(" ", "+"))])
        if (!raw.has(form)) raw.set(form, mark);
      for (const form of forms.map(withoutPlus)) if (!decoded.has(form)) decoded.set(form, mark);
    }
    this.#raw = [...raw];
    this.#decoded = [...decoded];
  }

  occursIn(text: string): boolean {
    if (this.#raw.some(([form]) => text.includes(form))) return true;
    let before = text;
    for (let layer = 0; layer < MAX_LAYERS && mayBeCoded(before); layer += 1) {
      const after = before.replace(CODE, decode);
      if (after === before) return false;
      const view = withoutPlus(after);
      if (this.#decoded.some(([form]) => view.includes(form))) return true;
      before = after;
    }
    return false;
  }

  /** All occurrences, in no order; they may overlap. */
  find(text: string): (Span & { readonly mark: string })[] {
    const found = this.#raw.flatMap(([form, mark]) => spansOf(form, text).map((span) => ({ ...span, mark })));
    let view: View = { text, sources: null };
    for (let layer = 0; layer < MAX_LAYERS && mayBeCoded(view.text); layer += 1) {
      const next = decodedView(view);
      if (next.text === view.text) break;
      view = next;
      const { sources } = view;
      const shown = withoutPlus(view.text);
      for (const [form, mark] of this.#decoded) {
        for (const { from, to } of spansOf(form, shown))
          found.push({ from: sources?.from[from] ?? from, to: sources?.to[to - 1] ?? to, mark });
      }
    }
    return found;
  }
}

/** Enough for JSON in a JSON string in a JSON line, with colour codes. */
const MAX_LAYERS = 4;

/** Control sequences and hyperlinks of terminals, escapes of JSON and of shells, percent codes. */
const CODE =
  /\x1b\[[0-?]{0,64}[ -/]{0,4}[@-~]|\x1b\][^\x07\x1b\n]{0,2048}(?:\x07|\x1b\\)|\\(?:u[0-9a-f]{4}|x[0-9a-f]{2}|(?:033|e)(?=\[)|[^])|(?:%[89a-f][0-9a-f]){1,64}|%[0-7][0-9a-f]/gi;

function mayBeCoded(text: string): boolean {
  return text.includes("\\") || text.includes("%") || text.includes("\x1b");
}

const LETTERS: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", b: "\b", f: "\f" };

/** Decodes one escape sequence; text that is not a valid sequence stays. The result is never longer than the input. */
function decode(code: string): string {
  if (code.startsWith("\x1b")) return "";
  if (code.startsWith("%")) return percentDecoded(code);
  const rest = code.slice(1);
  if (rest.length === 5 || (rest.length === 3 && rest !== "033"))
    return String.fromCharCode(Number.parseInt(rest.slice(1), 16));
  if (rest === "033" || rest === "e") return "\x1b";
  return LETTERS[rest] ?? (/^\w/.test(rest) ? code : rest);
}

function percentDecoded(code: string): string {
  try {
    return decodeURIComponent(code);
  } catch {
    return code;
  }
}

interface View {
  readonly text: string;
  /** For each character, the start and end of its source in the original. Null: the text is the original. */
  readonly sources: { readonly from: Int32Array; readonly to: Int32Array } | null;
}

function decodedView({ text, sources }: View): View {
  const from = new Int32Array(text.length);
  const to = new Int32Array(text.length);
  const parts: string[] = [];
  let length = 0;
  const add = (part: string, first: number, last: number | null) => {
    parts.push(part);
    for (let at = 0; at < part.length; at += 1) {
      const [begin, end] = last === null ? [first + at, first + at] : [first, last];
      from[length] = sources === null ? begin : (sources.from[begin] ?? 0);
      to[length] = sources === null ? end + 1 : (sources.to[end] ?? 0);
      length += 1;
    }
  };
  let done = 0;
  for (const { 0: code, index } of text.matchAll(CODE)) {
    add(text.slice(done, index), done, null);
    done = index + code.length;
    const plain = decode(code);
    if (plain === code) add(code, index, null);
    else add(plain, index, done - 1);
  }
  add(text.slice(done), done, null);
  return { text: parts.join(""), sources: { from: from.subarray(0, length), to: to.subarray(0, length) } };
}

function withoutPlus(text: string): string {
  return text.replaceAll("+", " ");
}

/** Overlapping occurrences form one span. */
function spansOf(form: string, text: string): Span[] {
  const spans: { from: number; to: number }[] = [];
  for (let at = text.indexOf(form); at !== -1; at = text.indexOf(form, at + 1)) {
    const last = spans.at(-1);
    if (last !== undefined && at < last.to) last.to = at + form.length;
    else spans.push({ from: at, to: at + form.length });
  }
  return spans;
}

function base64Of(value: string): string[] {
  const bytes = new TextEncoder().encode(value);
  const base64 = [0, 1, 2].map((offset) => base64Inside(bytes, offset));
  return [...base64, ...base64.map((text) => text.replaceAll("+", "-").replaceAll("/", "_"))];
}

/** The base64 digits that depend on these bytes alone when `offset` other bytes precede them. */
function base64Inside(bytes: Uint8Array, offset: number): string {
  const padded = new Uint8Array(offset + bytes.length);
  padded.set(bytes, offset);
  const digits = btoa(Array.from(padded, (byte) => String.fromCharCode(byte)).join(""));
  const whole = Math.floor((padded.length * 8) / 6);
  return digits.slice(Math.ceil((offset * 8) / 6), whole);
}

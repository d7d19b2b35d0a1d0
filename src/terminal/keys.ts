/** Owns the names of keys and reads them from a terminal's bytes. Pure. */

/**
 * One character, or the name of a key without a character: `up`, `enter`, `space`, `ctrl-c`, `unknown`. A paste, if asked
 * for, is one key: `paste:` and the text.
 */
export type Key = string;

export interface DecodedKeys {
  readonly keys: readonly Key[];
  /** The beginning of an incomplete sequence, such as a lone escape character. */
  readonly rest: string;
}

const ESC = "\x1b";
const PASTE_END = "\x1b[201~";
/** Longer than any key's sequence: a sequence without an end by then is dropped. */
const MAX_SEQUENCE = 32;

/** In the first of two dialects; the other uses `O` for `[`. */
const NAMES: Readonly<Record<string, Key>> = {
  "[A": "up",
  "[B": "down",
  "[C": "right",
  "[D": "left",
  "[3~": "delete",
  "[5~": "pageup",
  "[6~": "pagedown",
  "[H": "home",
  "[1~": "home",
  "[7~": "home",
  "[F": "end",
  "[4~": "end",
  "[8~": "end",
};

const CONTROLS: Readonly<Record<string, Key>> = {
  "\r": "enter",
  "\n": "enter",
  "\t": "tab",
  " ": "space",
  "\b": "backspace",
  "\x7f": "backspace",
};

const PASTE = "paste:";
/** The rest of a longer paste is dropped. */
const MAX_PASTE = 1024 * 1024;

/** The text of a paste. Null: another key. */
export function pastedIn(key: Key): string | null {
  return key.startsWith(PASTE) ? key.slice(PASTE.length) : null;
}

/** Pasted text gives no keys unless the caller takes pastes: a paste must not start or allow anything. */
export function decode(text: string, takesPastes = false): DecodedKeys {
  const keys: Key[] = [];
  let at = 0;
  while (at < text.length) {
    if (text[at] !== ESC) {
      const character = String.fromCodePoint(text.codePointAt(at) ?? 0);
      keys.push(CONTROLS[character] ?? (character < " " ? controlName(character) : character));
      at += character.length;
      continue;
    }
    const sequence = /^\x1b(?:\[[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]|O[\x40-\x7e])/.exec(
      text.slice(at, at + MAX_SEQUENCE),
    )?.[0];
    if (sequence === "\x1b[200~") {
      const end = text.indexOf(PASTE_END, at);
      const pasted = text.slice(at + sequence.length, end === -1 ? undefined : end);
      // Without its text, only the end of a paste matters, however long it is.
      if (end === -1) return { keys, rest: sequence + (takesPastes ? begun(pasted) : tailOf(pasted)) };
      if (takesPastes) keys.push(PASTE + pasted.slice(0, MAX_PASTE));
      at = end + PASTE_END.length;
    } else if (sequence !== undefined) {
      keys.push(NAMES[sequence.slice(1).replace(/^O/, "[")] ?? "unknown");
      at += sequence.length;
    } else if (isBeginning(text.slice(at))) return { keys, rest: text.slice(at) };
    else {
      keys.push("escape");
      at += 1;
    }
  }
  return { keys, rest: "" };
}

const tailOf = (pasted: string) => pasted.slice(-PASTE_END.length);

/** Keeps the end, where the mark of the paste's end may have begun. */
function begun(pasted: string): string {
  return pasted.length <= MAX_PASTE ? pasted : pasted.slice(0, MAX_PASTE) + tailOf(pasted);
}

function controlName(character: string): Key {
  return `ctrl-${String.fromCharCode(character.charCodeAt(0) + 64).toLowerCase()}`;
}

/** Whether to wait for more: a paste has no deadline, a lone escape character soon becomes a key. */
export function isPaste(rest: string): boolean {
  return rest.startsWith("\x1b[200~");
}

function isBeginning(text: string): boolean {
  return text.length < MAX_SEQUENCE && /^\x1b(?:\[[\x30-\x3f]*[\x20-\x2f]*|O)?$/.test(text);
}

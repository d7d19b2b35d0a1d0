/** From what a terminal sends to keys, and from keys to what they mean in a state. Pure. */
import { isTiny } from "./layout.ts";
import { openQuestion, type KeyMessage, type State } from "./state.ts";

/** A character, or the name of a key that has none. */
export type Key = string;

export interface Decoded {
  readonly keys: readonly Key[];
  /** The beginning of a sequence whose rest has not come. A lone escape character is one. */
  readonly rest: string;
}

const ESC = "\x1b";
const PASTE_END = "\x1b[201~";
/** Longer than any key's sequence: what does not end by then is dropped. */
const MAX_SEQUENCE = 32;

const NAMES: Readonly<Record<string, Key>> = {
  "[A": "up",
  "[B": "down",
  OA: "up",
  OB: "down",
  "[5~": "pageup",
  "[6~": "pagedown",
  "[H": "home",
  OH: "home",
  "[1~": "home",
  "[7~": "home",
  "[F": "end",
  OF: "end",
  "[4~": "end",
  "[8~": "end",
};

const CONTROLS: Readonly<Record<string, Key>> = {
  "\r": "enter",
  "\n": "enter",
  "\t": "tab",
  " ": "space",
  "\x02": "pageup",
  "\x03": "ctrl-c",
  "\x06": "pagedown",
  "\x0c": "ctrl-l",
  "\x1a": "ctrl-z",
};

/** Pasted text is no key at all: nothing may be started or allowed by a paste. */
export function decode(text: string): Decoded {
  const keys: Key[] = [];
  let at = 0;
  while (at < text.length) {
    if (text[at] !== ESC) {
      const character = String.fromCodePoint(text.codePointAt(at) ?? 0);
      keys.push(CONTROLS[character] ?? character);
      at += character.length;
      continue;
    }
    const sequence = /^\x1b(?:\[[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]|O[\x40-\x7e])/.exec(
      text.slice(at, at + MAX_SEQUENCE),
    )?.[0];
    if (sequence === "\x1b[200~") {
      const end = text.indexOf(PASTE_END, at);
      // Only the end of a paste is of interest, however long it is.
      if (end === -1)
        return { keys, rest: sequence + text.slice(at + sequence.length).slice(-PASTE_END.length) };
      at = end + PASTE_END.length;
    } else if (sequence !== undefined) {
      keys.push(NAMES[sequence.slice(1)] ?? "unknown");
      at += sequence.length;
    } else if (isBeginning(text.slice(at))) return { keys, rest: text.slice(at) };
    else {
      keys.push("escape");
      at += 1;
    }
  }
  return { keys, rest: "" };
}

/** Whether waiting for more makes sense: a paste has no deadline, a lone escape character is a key before long. */
export function isPaste(rest: string): boolean {
  return rest.startsWith("\x1b[200~");
}

function isBeginning(text: string): boolean {
  return text.length < MAX_SEQUENCE && /^\x1b(?:\[[\x30-\x3f]*[\x20-\x2f]*|O)?$/.test(text);
}

const EVERYWHERE: Readonly<Record<Key, KeyMessage>> = {
  j: { type: "move", by: 1 },
  down: { type: "move", by: 1 },
  k: { type: "move", by: -1 },
  up: { type: "move", by: -1 },
  pagedown: { type: "page", by: 1 },
  pageup: { type: "page", by: -1 },
  g: { type: "edge", to: "first" },
  home: { type: "edge", to: "first" },
  G: { type: "edge", to: "last" },
  end: { type: "edge", to: "last" },
  space: { type: "select" },
  u: { type: "unselect" },
  f: { type: "filter" },
  enter: { type: "enter" },
  escape: { type: "back" },
  c: { type: "code" },
  tab: { type: "next_pane" },
  x: { type: "codex" },
  i: { type: "interrupt" },
  r: { type: "refresh" },
  "?": { type: "help" },
  q: { type: "quit", atOnce: false },
  "ctrl-l": { type: "redraw" },
  "ctrl-z": { type: "suspend" },
};

const LEAVING: Readonly<Record<Key, KeyMessage>> = {
  i: { type: "leave", how: "interrupt" },
  d: { type: "leave", how: "discard" },
  s: { type: "leave", how: "stay" },
  n: { type: "leave", how: "stay" },
  escape: { type: "leave", how: "stay" },
  "ctrl-l": { type: "redraw" },
  "ctrl-z": { type: "suspend" },
};

/** The turn has ended while the user was asked what shall become of it. */
const ENDED: Readonly<Record<Key, KeyMessage>> = {
  ...LEAVING,
  y: { type: "quit", atOnce: false },
  enter: { type: "quit", atOnce: false },
  q: { type: "quit", atOnce: false },
};

/** Nothing is begun or allowed on a screen that is too small to show it. */
const UNSEEN: Readonly<Record<Key, KeyMessage>> = {
  q: { type: "quit", atOnce: false },
  "ctrl-l": { type: "redraw" },
  "ctrl-z": { type: "suspend" },
};

const ASKED: Readonly<Record<Key, KeyMessage>> = {
  y: { type: "answer", decision: "accept" },
  a: { type: "answer", decision: "accept_for_session" },
  n: { type: "answer", decision: "decline" },
  c: { type: "answer", decision: "cancel" },
};

const OFFERED: Readonly<Record<Key, KeyMessage>> = {
  y: { type: "consent", yes: true },
  n: { type: "consent", yes: false },
  escape: { type: "consent", yes: false },
};

/** Null: the key means nothing here. */
export function meaningOf(state: State, key: Key): KeyMessage | null {
  if (key === "ctrl-c") return { type: "quit", atOnce: state.leaving !== "no" };
  if (isTiny(state.size)) return lookUp(UNSEEN, key);
  const { phase } = state.codex;
  if (state.leaving !== "no") return lookUp(phase === "running" ? LEAVING : ENDED, key);
  if (openQuestion(state) !== null) return lookUp(ASKED, key) ?? lookUp(EVERYWHERE, key);
  if (phase !== "offered" && phase !== "refused") return lookUp(EVERYWHERE, key);
  // Help and filters lie over the list, so they take the first Esc.
  if (key === "escape" && state.overlay !== null) return lookUp(EVERYWHERE, key);
  return lookUp(OFFERED, key) ?? lookUp(EVERYWHERE, key);
}

function lookUp(table: Readonly<Record<Key, KeyMessage>>, key: Key): KeyMessage | null {
  return Object.hasOwn(table, key) ? (table[key] ?? null) : null;
}

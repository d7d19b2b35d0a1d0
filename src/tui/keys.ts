/** The meaning of a key in each state of the review UI. Pure. */
import type { Key } from "../terminal/terminal.ts";
import { isTiny } from "./layout.ts";
import { openQuestion, type KeyMessage, type State } from "./state.ts";

const EVERYWHERE: Readonly<Record<Key, KeyMessage>> = {
  j: { type: "move", by: 1 },
  down: { type: "move", by: 1 },
  k: { type: "move", by: -1 },
  up: { type: "move", by: -1 },
  pagedown: { type: "page", by: 1 },
  "ctrl-f": { type: "page", by: 1 },
  pageup: { type: "page", by: -1 },
  "ctrl-b": { type: "page", by: -1 },
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

/** The turn ended while the UI was asking what to do with it. */
const ENDED: Readonly<Record<Key, KeyMessage>> = {
  ...LEAVING,
  y: { type: "quit", atOnce: false },
  enter: { type: "quit", atOnce: false },
  q: { type: "quit", atOnce: false },
};

/** On a screen that is too small to show an action, no key starts or allows it. */
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

/** Null: the key has no meaning here. */
export function meaningOf(state: State, key: Key): KeyMessage | null {
  if (key === "ctrl-c") return { type: "quit", atOnce: state.leaving !== "no" };
  if (isTiny(state.size)) return lookUp(UNSEEN, key);
  const { phase } = state.codex;
  if (state.leaving !== "no") return lookUp(phase === "running" ? LEAVING : ENDED, key);
  if (openQuestion(state) !== null) return lookUp(ASKED, key) ?? lookUp(EVERYWHERE, key);
  if (phase !== "offered" && phase !== "refused") return lookUp(EVERYWHERE, key);
  // Help and filters cover the list, so they receive the first Esc.
  if (key === "escape" && state.overlay !== null) return lookUp(EVERYWHERE, key);
  return lookUp(OFFERED, key) ?? lookUp(EVERYWHERE, key);
}

function lookUp(table: Readonly<Record<Key, KeyMessage>>, key: Key): KeyMessage | null {
  return Object.hasOwn(table, key) ? (table[key] ?? null) : null;
}

/** The second door of `terminal`: the parts that UIs share. A runner, the cursor of a list, a line editor, fuzzy search. */
export { FIRST, kept, moved, type ListCursor } from "./choice.ts";
export { drawn, edited, EMPTY, type Edited } from "./editor.ts";
export { ranked } from "./fuzzy.ts";
export { runUi } from "./ui.ts";
export type { RunningUi, UiMessage, Updated } from "./ui.ts";

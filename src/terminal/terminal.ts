/**
 * The door of `terminal`, a kit for full-screen UIs that knows nothing of what they show. A UI keeps a state, changes it
 * in a pure reducer, and draws it as lines: `text.ts` makes lines of untrusted text, `layout.ts` puts them into rows,
 * columns and pages. `Screen` reads keys (`keys.ts`), writes the rows that changed
 * (`paint.ts`), and gives the terminal back as it was.
 */
export type { Key } from "./keys.ts";
export { beside, clamp, page, ruled, scrolledTo, stacked, type Size } from "./layout.ts";
export { Screen, sizeOf } from "./screen.ts";
export { cutLine, fit, lineOf, linesOf, remembered, styled, wrap } from "./text.ts";
export type { Line, Piece, Style } from "./text.ts";

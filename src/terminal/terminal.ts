/**
 * The door of `terminal`, a kit for full-screen UIs, independent of their content. A UI keeps a state, changes it in a
 * pure reducer, and draws it as lines: `text.ts` turns untrusted text into lines, `layout.ts` arranges them in rows,
 * columns and pages. `Screen` reads keys (`keys.ts`), writes changed rows (`paint.ts`), and restores the terminal at
 * the end. `widgets.ts` is the second door.
 */
export type { Key } from "./keys.ts";
export { beside, clamp, page, ruled, scrolledTo, stacked, type Size } from "./layout.ts";
export { changesOf } from "./paint.ts";
export { Screen, sizeOf } from "./screen.ts";
export { cutLine, fit, lineOf, linesOf, remembered, styled, wrap } from "./text.ts";
export type { Line, Piece } from "./text.ts";

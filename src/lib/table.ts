/** Aligned columns. Each cell is one harmless line. */
import { cutToColumns, widthOf } from "./width.ts";
import { wrap } from "./wrap.ts";

const GAP = 2;

/** One line per row, columns two spaces apart, no trailing blanks. A limit cuts only the last column. */
export function table(rows: readonly (readonly string[])[], widthLimit?: number): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [at, cell] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, widthOf(cell));
  }
  const before = widths.slice(0, -1).reduce((sum, width) => sum + width + GAP, 0);
  const room = widthLimit === undefined ? Number.POSITIVE_INFINITY : Math.max(1, widthLimit - before);
  return rows.map((row) =>
    row
      .map((cell, at) => {
        if (at === widths.length - 1) return cutToColumns(cell, room);
        return cell + " ".repeat((widths[at] ?? 0) - widthOf(cell) + GAP);
      })
      .join("")
      .trimEnd(),
  );
}

/** A column of a table that fits the terminal. */
export interface Column {
  readonly head: string;
  /** whole: users type it, so it is never cut. wrap: the last column, in several lines. Absent: cut, then left out. */
  readonly as?: "whole" | "wrap";
  /** A narrower column is useless. */
  readonly least?: number;
  readonly cut?: (cell: string, columns: number) => string;
}

/** Text in a narrower column is unreadable. */
const LEAST_WRAPPED = 24;
const BELOW = 4;

/**
 * The header, then one text per row, which may contain line breaks. From the right, columns shrink to their least width
 * and then drop out. Text to type stays whole, and a text without room beside it goes below it.
 */
export function fitTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  widthLimit: number | undefined,
): string[] {
  const all = [columns.map(({ head }) => head), ...rows];
  if (widthLimit === undefined) return table(all);
  const natural = columns.map((_, at) => Math.max(...all.map((row) => widthOf(row[at] ?? ""))));
  const widths = fitWidths(columns, natural, widthLimit);
  const shown = columns.flatMap((column, at) => (widths[at] === 0 ? [] : [{ column, at }]));
  const text = shown.find(({ column }) => column.as === "wrap");
  const beside = shown.filter((one) => one !== text);
  const left = beside.reduce((sum, { at }) => sum + (widths[at] ?? 0) + GAP, 0);
  const isBelow = text !== undefined && widthLimit - left < Math.min(LEAST_WRAPPED, natural[text.at] ?? 0);
  return all.map((row, line) => {
    const cells = beside.map(({ column, at }) => {
      const cell = row[at] ?? "";
      const width = widths[at] ?? 0;
      if (widthOf(cell) <= width) return cell + " ".repeat(width - widthOf(cell) + GAP);
      return (column.cut ?? cutToColumns)(cell, width) + " ".repeat(GAP);
    });
    const start = cells.join("");
    const words = text === undefined ? "" : (row[text.at] ?? "");
    if (words === "" || (isBelow && line === 0)) return start.trimEnd();
    if (isBelow) {
      const lines = wrap(words, { width: widthLimit - BELOW, indent: 0 });
      return [start.trimEnd(), ...lines.map((one) => " ".repeat(BELOW) + one)].join("\n");
    }
    const [first = "", ...more] = wrap(words, { width: widthLimit - left, indent: 0 });
    return [start + first, ...more.map((one) => " ".repeat(left) + one)].join("\n").trimEnd();
  });
}

/** Header first. The last column wraps, the others stay whole. */
export function wrapTable(rows: readonly (readonly string[])[], widthLimit: number | undefined): string[] {
  const [header = [], ...rest] = rows;
  const last = header.length - 1;
  return fitTable(
    header.map((head, at) => ({ head, as: at === last ? "wrap" : "whole" })),
    rest,
    widthLimit,
  );
}

/** 0: the column is left out. The rightmost goes first. */
function fitWidths(columns: readonly Column[], natural: readonly number[], limit: number): readonly number[] {
  const mayGo = columns.flatMap(({ as }, at) => (as === undefined ? [at] : [])).toReversed();
  for (let gone = 0; ; gone += 1) {
    const widths = natural.map((width, at) => (mayGo.slice(0, gone).includes(at) ? 0 : width));
    const fits = shrink(columns, widths, limit);
    if (fits || gone >= mayGo.length) return widths;
  }
}

/** Shrinks the rightmost columns that can be cut. True: the table now fits. */
function shrink(columns: readonly Column[], widths: number[], limit: number): boolean {
  const gaps = GAP * (widths.filter((width) => width > 0).length - 1);
  let excess = widths.reduce((sum, width) => sum + width, gaps) - limit;
  for (const [at, { as, least }] of [...columns.entries()].toReversed()) {
    const width = widths[at] ?? 0;
    const floor = as === "whole" ? width : as === "wrap" ? LEAST_WRAPPED : (least ?? width);
    const taken = Math.max(0, Math.min(excess, width - floor));
    widths[at] = width - taken;
    excess -= taken;
  }
  return excess <= 0;
}

/** Lists in aligned columns. Cells are one line each and already harmless. */
import { cutToColumns, widthOf } from "./width.ts";

const GAP = 2;

/**
 * One line a row, columns two spaces apart, nothing behind the last cell. With a limit, the last column is cut
 * so that lines fit; the columns before it are never cut.
 */
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

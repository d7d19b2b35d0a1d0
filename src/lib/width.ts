/** The width of a text in terminal columns, and cutting a text to columns. Expects text without control characters. */

/** Marks, joiners and selectors that take no column. */
const ZERO = /[\p{Mn}\p{Me}\u200b-\u200f\u2060-\u2064\ufeff]/u;
/** East Asian wide and full-width forms, and emoji that default to pictures. */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1b000}-\u{1b2ff}\u{20000}-\u{3fffd}\p{Emoji_Presentation}]/u;

export function widthOf(text: string): number {
  let width = 0;
  for (const character of text) width += widthOfCharacter(character);
  return width;
}

/** The text if it fits, otherwise its beginning and `…`, at most `columns` wide together. */
export function cutToColumns(text: string, columns: number): string {
  let width = 0;
  let at = 0;
  /** End of the longest prefix that leaves a column for the ellipsis. */
  let keep = 0;
  for (const character of text) {
    width += widthOfCharacter(character);
    if (width > columns) return columns < 1 ? "" : `${text.slice(0, keep)}…`;
    at += character.length;
    if (width < columns) keep = at;
  }
  return text;
}

/** The text if it fits, otherwise `…` and its end, at most `columns` wide together. */
export function cutStart(text: string, columns: number): string {
  let width = widthOf(text);
  if (width <= columns) return text;
  let from = 0;
  for (const character of text) {
    if (width < columns) break;
    width -= widthOfCharacter(character);
    from += character.length;
  }
  return columns < 1 ? "" : `…${text.slice(from)}`;
}

function widthOfCharacter(character: string): number {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x300) return 1;
  if (ZERO.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}

/** A unified diff as files, hunks and numbered lines. Pure; survives any text. */

export interface DiffLine {
  readonly kind: "same" | "added" | "deleted" | "note";
  readonly old: number | null;
  readonly new: number | null;
  readonly text: string;
}

export interface DiffHunk {
  readonly heading: string;
  readonly lines: readonly DiffLine[];
}

export interface DiffFile {
  readonly path: string;
  /** What git says besides lines: renames, modes, binary files. */
  readonly notes: readonly string[];
  readonly hunks: readonly DiffHunk[];
  readonly added: number;
  readonly deleted: number;
}

interface OpenFile {
  path: string;
  notes: string[];
  hunks: { heading: string; lines: DiffLine[] }[];
  added: number;
  deleted: number;
  /** Lines that the open hunk still has to come. */
  left: { old: number; new: number };
  at: { old: number; new: number };
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/;

export function parseDiff(patch: string): readonly DiffFile[] {
  const files: OpenFile[] = [];
  let file: OpenFile | undefined;
  const lines = patch.split("\n");
  if (lines.at(-1) === "") lines.pop();
  for (const line of lines) {
    if (file !== undefined && (file.left.old > 0 || file.left.new > 0)) inHunk(file, line);
    else if (line.startsWith("diff --git ")) files.push((file = begin(line)));
    else if (file === undefined) continue;
    else if (line.startsWith("@@")) hunk(file, line);
    else if (line.startsWith("\\ ")) note(file, line.slice(2));
    else heading(file, line);
  }
  return files.map(({ path, notes, hunks, added, deleted }) => ({ path, notes, hunks, added, deleted }));
}

function begin(line: string): OpenFile {
  const [, path = ""] = / "?b\/(.*?)"?$/.exec(line) ?? [];
  return {
    path,
    notes: [],
    hunks: [],
    added: 0,
    deleted: 0,
    left: { old: 0, new: 0 },
    at: { old: 0, new: 0 },
  };
}

function heading(file: OpenFile, line: string): void {
  const [, path] = /^\+\+\+ "?b\/(.*?)"?\t?$/.exec(line) ?? [];
  if (path !== undefined) file.path = path;
  else if (!/^(?:---|\+\+\+|index) /.test(line) && line !== "") file.notes.push(line);
}

function hunk(file: OpenFile, line: string): void {
  const [, oldAt = "0", oldCount = "1", newAt = "0", newCount = "1", title = ""] = HUNK.exec(line) ?? [];
  file.left = { old: Number(oldCount), new: Number(newCount) };
  file.at = { old: Number(oldAt), new: Number(newAt) };
  file.hunks.push({ heading: title, lines: [] });
}

function inHunk(file: OpenFile, line: string): void {
  const lines = file.hunks.at(-1)?.lines;
  const [mark, text] = [line.charAt(0), line.slice(1)];
  if (mark === "+") {
    lines?.push({ kind: "added", old: null, new: file.at.new++, text });
    file.left.new -= 1;
    file.added += 1;
  } else if (mark === "-") {
    lines?.push({ kind: "deleted", old: file.at.old++, new: null, text });
    file.left.old -= 1;
    file.deleted += 1;
  } else if (mark === "\\") note(file, text.trim());
  else {
    lines?.push({ kind: "same", old: file.at.old++, new: file.at.new++, text });
    file.left.old -= 1;
    file.left.new -= 1;
  }
}

function note(file: OpenFile, text: string): void {
  file.hunks.at(-1)?.lines.push({ kind: "note", old: null, new: null, text });
}

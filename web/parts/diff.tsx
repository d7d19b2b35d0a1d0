/** One changed file as a table of lines. */
import { plural, safe, safeLine } from "../format.ts";
import type { DiffFile, DiffLine } from "../model/diff.ts";

/** More lines than this are shown when asked for. */
const MOST_LINES = 1_500;

const MARKS = { same: " ", added: "+", deleted: "−", note: " " } as const;

export function DiffView({ file, isOpen }: { readonly file: DiffFile; readonly isOpen: boolean }) {
  const lines = file.hunks.reduce((sum, hunk) => sum + hunk.lines.length, 0);
  return (
    <details class="file" open={isOpen && lines <= MOST_LINES} id={`file-${encodeURIComponent(file.path)}`}>
      <summary>
        <span class="file-path mono">{safeLine(file.path)}</span>
        <span class="is-good">+{file.added}</span>
        <span class="is-bad">−{file.deleted}</span>
      </summary>
      {file.notes.map((note) => (
        <p key={note} class="file-note">
          {safeLine(note, 300)}
        </p>
      ))}
      {lines === 0 ? null : (
        <div
          class="diff"
          tabIndex={0}
          role="region"
          aria-label={`Changes of ${safeLine(file.path)}, ${plural(lines, "line")}`}
        >
          <table>
            {file.hunks.map((hunk, at) => (
              <tbody key={at}>
                <tr class="hunk">
                  <td colSpan={3}>{safeLine(hunk.heading, 200) || "⋯"}</td>
                </tr>
                {hunk.lines.map((line, row) => (
                  <Line key={row} line={line} />
                ))}
              </tbody>
            ))}
          </table>
        </div>
      )}
    </details>
  );
}

function Line({ line }: { readonly line: DiffLine }) {
  return (
    <tr class={`line is-${line.kind}`}>
      <td class="line-n">{line.old ?? ""}</td>
      <td class="line-n">{line.new ?? ""}</td>
      <td class="line-text">
        <span class="line-mark">{MARKS[line.kind]}</span>
        {safe(line.text)}
      </td>
    </tr>
  );
}

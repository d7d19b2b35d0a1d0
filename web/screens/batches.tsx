/** Issues that agents work on, as a board per repository. */
import { useGet } from "../api.ts";
import { isLive, plural, safeLine, stateOf, titleOf } from "../format.ts";
import { Age, Command, Empty, Failure, Skeleton, State, useNow } from "../parts/common.tsx";
import type { RunRow } from "../types.ts";

interface IssueRow extends RunRow {
  readonly issue: string;
}

interface Batch {
  readonly repository: string;
  readonly issues: readonly IssueRow[];
}

const COLUMNS = [
  ["Working", ["running", "starting"]],
  ["Interrupted", ["interrupted", "cancelled", "stopped", "diverged"]],
  ["Failed", ["failed"]],
  ["Done", ["completed"]],
] as const;

export function Batches() {
  const { data, error, reload } = useGet<{ batches: readonly Batch[] }>("/batches", ["batches"]);
  const now = useNow();
  return (
    <main class="screen is-wide" id="main">
      <header class="screen-head">
        <h1>Batches</h1>
        <span class="count" role="status">
          {data === undefined ? "" : plural(data.batches.length, "repository", "repositories")}
        </span>
      </header>
      {error === undefined ? null : <Failure error={error} onRetry={reload} />}
      {data === undefined && error === undefined ? <Skeleton /> : null}
      {data?.batches.length === 0 ? (
        <Empty title="No agent works on issues">
          <p>
            Start a batch in a repository: <Command>reprise issues run</Command>
          </p>
        </Empty>
      ) : null}
      {(data?.batches ?? []).map((batch) => (
        <Board key={batch.repository} batch={batch} now={now} />
      ))}
    </main>
  );
}

function Board({ batch, now }: { readonly batch: Batch; readonly now: number }) {
  const name = safeLine(batch.repository, 120);
  return (
    <section aria-label={name}>
      <h2>{name}</h2>
      <div class="board">
        {COLUMNS.map(([title, states]) => {
          const rows = batch.issues.filter(({ status }) => (states as readonly string[]).includes(status));
          return (
            <div class="column" key={title}>
              <h3>
                {title} <span class="count">{rows.length}</span>
              </h3>
              <ul>
                {rows.map((row) => (
                  <li key={row.handle}>
                    <a class="issue" href={`/runs/${row.handle}`}>
                      <span class="issue-head">
                        <strong>{safeLine(row.issue, 40)}</strong>
                        <span class="dim">
                          <Age at={row.updatedAt} now={now} />
                        </span>
                      </span>
                      <span class="issue-title">{titleOf(row)}</span>
                      <span class="issue-head">
                        <State state={stateOf(row)} isLive={isLive(row)} />
                        <span class="is-engine">{safeLine(row.agentName, 16)}</span>
                      </span>
                    </a>
                  </li>
                ))}
              </ul>
            </div>
          );
        })}
      </div>
    </section>
  );
}

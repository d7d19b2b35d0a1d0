/** Every run, last used first: filter, open, start another. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, listen, type Refusal, useLink } from "../api.ts";
import { count, folder, isLive, safeLine, stateOf, titleOf } from "../format.ts";
import { addPage, applyChanges, type Filter, NO_RUNS, type RunsState } from "../model/runs.ts";
import { Age, Button, Empty, Failure, Skeleton, State, useNow } from "../parts/common.tsx";
import { Icon } from "../parts/icons.tsx";
import { Rows } from "../parts/list.tsx";
import { go, type Place } from "../router.ts";
import type { RunRow } from "../types.ts";
import { NewRun } from "./new-run.tsx";

const FIRST_PAGE = 100;
const PAGE = 500;
const STATUSES = ["running", "completed", "interrupted", "failed", "cancelled"];

interface Page {
  readonly runs: readonly RunRow[];
  readonly next: string | null;
  readonly total?: number;
}

const filterOf = ({ query }: Place): Filter => ({
  status: query.get("status") ?? "",
  engine: query.get("engine") ?? "",
  tag: query.get("tag") ?? "",
  grep: query.get("q") ?? "",
});

function queryOf(filter: Filter, rest: Readonly<Record<string, string>>): string {
  const entries = Object.entries({ ...filter, ...rest }).filter(([, value]) => value !== "");
  return new URLSearchParams(entries).toString();
}

/** Loads pages as they are reached, and applies live changes. */
function useRuns(filter: Filter) {
  const key = JSON.stringify(filter);
  const [state, setState] = useState<{ key: string; runs: RunsState | null; error?: Refusal }>({
    key,
    runs: null,
  });
  const { time } = useLink();
  const loading = useRef("");
  const load = useCallback(
    (after: string | null) => {
      const call = `${key} ${time} ${after}`;
      if (loading.current === call) return;
      loading.current = call;
      const query = queryOf(filter, {
        limit: String(after === null ? FIRST_PAGE : PAGE),
        after: after ?? "",
      });
      get<Page>(`/runs?${query}`).then(
        (page) =>
          loading.current === call &&
          setState((old) => ({ key, runs: addPage(after === null ? NO_RUNS : (old.runs ?? NO_RUNS), page) })),
        (error: Refusal) => loading.current === call && setState((old) => ({ ...old, key, error })),
      );
    },
    [key, time],
  );
  useEffect(() => load(null), [load]);
  useEffect(
    () =>
      listen("runs", (message) => {
        const changes = message as unknown as { rows?: readonly RunRow[]; gone?: readonly string[] };
        setState((old) =>
          old.runs === null || old.key !== key
            ? old
            : {
                ...old,
                runs: applyChanges(old.runs, { rows: changes.rows ?? [], gone: changes.gone ?? [] }, filter),
              },
        );
      }),
    [key],
  );
  const current = state.key === key ? state : { key, runs: null };
  return { ...current, load };
}

export function Runs({ place, mayWrite }: { readonly place: Place; readonly mayWrite: boolean }) {
  const filter = filterOf(place);
  const { runs, error, load } = useRuns(filter);
  const isStarting = place.query.has("new");
  const reach = useCallback(
    (to: number) => {
      if (runs !== null && runs.next !== null && to >= runs.rows.length - 20) load(runs.next);
    },
    [runs, load],
  );
  const isFiltered = Object.values(filter).some((value) => value !== "");
  return (
    <main class="screen is-list" id="main">
      <header class="screen-head">
        <h1>Runs</h1>
        <span class="count" role="status">
          {runs === null ? "" : countWords(runs)}
        </span>
        <span class="grow" />
        {mayWrite ? (
          <Button kind="primary" icon="plus" onClick={() => go("/runs?new=1")}>
            New run
          </Button>
        ) : null}
      </header>
      <Filters filter={filter} rows={runs?.rows ?? []} />
      {error === undefined ? null : <Failure error={error} onRetry={() => load(null)} />}
      {runs === null && error === undefined ? <Skeleton rows={12} /> : null}
      {runs !== null && runs.total > 0 ? <Table runs={runs} onReach={reach} /> : null}
      {runs !== null && runs.total === 0 ? <NoRuns isFiltered={isFiltered} /> : null}
      {isStarting ? <NewRun onClose={() => go("/runs", { replace: true })} /> : null}
    </main>
  );
}

/** A server that does not count says only that there are more. */
const countWords = ({ rows, total, next }: RunsState): string =>
  next !== null && total === rows.length + 1 ? `${rows.length}+` : total.toLocaleString("en");

function NoRuns({ isFiltered }: { readonly isFiltered: boolean }) {
  if (isFiltered)
    return (
      <Empty title="No run fits this filter">
        <a href="/runs">Show all runs</a>
      </Empty>
    );
  return (
    <Empty title="No runs yet">
      <p>
        Start one here, or in a terminal: <code>reprise start claude "fix the flaky test"</code>
      </p>
    </Empty>
  );
}

const unique = (names: readonly string[], chosen: string): readonly string[] =>
  [...new Set(chosen === "" ? names : [...names, chosen])].sort((a, b) => a.localeCompare(b));

function Filters({ filter, rows }: { readonly filter: Filter; readonly rows: readonly RunRow[] }) {
  const [text, setText] = useState(filter.grep);
  const timer = useRef<ReturnType<typeof setTimeout>>();
  const apply = (change: Partial<Filter>) => {
    const { grep, ...rest } = { ...filter, grep: text, ...change };
    const query = queryOf({ ...rest, grep: "" }, { q: grep });
    go(query === "" ? "/runs" : `/runs?${query}`, { replace: true });
  };
  const type = (value: string) => {
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => apply({ grep: value.trim() }), 200);
  };
  return (
    <search class="filters">
      <label class="field is-search">
        <Icon name="search" />
        <span class="hidden">Filter by words in the title, folder or handle</span>
        <input
          type="search"
          id="filter"
          placeholder="Filter runs"
          value={text}
          onInput={(event) => type(event.currentTarget.value)}
        />
      </label>
      <div class="chips" role="group" aria-label="Status">
        {["", ...STATUSES].map((status) => (
          <button
            key={status}
            type="button"
            class="chip"
            aria-pressed={filter.status === status}
            onClick={() => apply({ status })}
          >
            {status === "" ? "All" : status}
          </button>
        ))}
      </div>
      <Pick
        label="Filter by engine"
        all="All engines"
        value={filter.engine}
        names={unique(
          rows.map((row) => row.agentName),
          filter.engine,
        )}
        onChange={(engine) => apply({ engine })}
      />
      <Pick
        label="Filter by tag"
        all="All tags"
        value={filter.tag}
        names={unique(
          rows.flatMap((row) => row.tags ?? []),
          filter.tag,
        )}
        onChange={(tag) => apply({ tag })}
      />
      <a
        class="chip is-link"
        href={text.trim() === "" ? "/search" : `/search?q=${encodeURIComponent(text.trim())}`}
      >
        Search conversations
      </a>
    </search>
  );
}

interface PickProps {
  readonly label: string;
  readonly all: string;
  readonly value: string;
  readonly names: readonly string[];
  readonly onChange: (value: string) => void;
}

/** One of the names that the loaded rows have. With one name there is nothing to choose. */
function Pick({ label, all, value, names, onChange }: PickProps) {
  if (names.length < 2 && value === "") return null;
  return (
    <label class="pick">
      <span class="hidden">{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="">{all}</option>
        {names.map((name) => (
          <option key={name} value={name}>
            {safeLine(name, 30)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Two lines per row on a phone. */
function useRowHeight(): number {
  const [isNarrow, setNarrow] = useState(() => matchMedia("(max-width: 760px)").matches);
  useEffect(() => {
    const query = matchMedia("(max-width: 760px)");
    const read = () => setNarrow(query.matches);
    query.addEventListener("change", read);
    return () => query.removeEventListener("change", read);
  }, []);
  return isNarrow ? 64 : 40;
}

function Table({ runs, onReach }: { readonly runs: RunsState; readonly onReach: (to: number) => void }) {
  const now = useNow();
  const rowHeight = useRowHeight();
  const head = (
    <>
      <span role="columnheader">State</span>
      <span role="columnheader">Title</span>
      <span role="columnheader">Engine</span>
      <span role="columnheader">Folder</span>
      <span role="columnheader" class="is-number">
        Attempts
      </span>
      <span role="columnheader" class="is-number">
        Tokens
      </span>
      <span role="columnheader" class="is-number">
        Used
      </span>
    </>
  );
  return (
    <Rows
      count={runs.total}
      rowHeight={rowHeight}
      label="Runs"
      head={head}
      onReach={onReach}
      keyOf={(at) => runs.rows[at]?.handle ?? String(at)}
      row={(at) => {
        const run = runs.rows[at];
        return run === undefined ? (
          <span role="cell" class="row-loading" />
        ) : (
          <RunCells run={run} now={now} />
        );
      }}
    />
  );
}

function RunCells({ run, now }: { readonly run: RunRow; readonly now: number }) {
  const { tokens: used } = run;
  const tokens = typeof used === "number" ? used : (used?.input ?? 0) + (used?.output ?? 0);
  return (
    <>
      <span role="cell" class="cell-state">
        <State state={stateOf(run)} isLive={isLive(run)} />
      </span>
      <span role="cell" class="cell-title">
        <a href={`/runs/${run.handle}`}>{titleOf(run)}</a>
        {(run.tags ?? []).map((tag) => (
          <span key={tag} class="tag">
            #{safeLine(tag, 20)}
          </span>
        ))}
      </span>
      <span role="cell" class="cell-engine is-engine">
        {safeLine(run.agentName, 16)}
      </span>
      <span role="cell" class="cell-folder" title={safeLine(run.cwd)}>
        {folder(run.cwd)}
      </span>
      <span role="cell" class="cell-attempts is-number">
        {run.attempts}
      </span>
      <span role="cell" class="cell-tokens is-number">
        {tokens === 0 ? "" : count(tokens)}
      </span>
      <span role="cell" class="cell-age is-number">
        <Age at={run.updatedAt} now={now} />
      </span>
    </>
  );
}

/** Searches the conversations of all runs. */
import { useRef, useState } from "preact/hooks";
import { useGet } from "../api.ts";
import { moment, plural, safeLine } from "../format.ts";
import { Empty, Failure, Skeleton, useNow } from "../parts/common.tsx";
import { Icon } from "../parts/icons.tsx";
import { go, type Place } from "../router.ts";

interface Hit {
  readonly handle: string;
  readonly engine: string;
  readonly title: string | null;
  readonly attempt: number;
  readonly at: string | null;
  readonly kind: string;
  readonly line: string;
  /** Start and end of each match in the line. */
  readonly ranges: readonly (readonly [number, number])[];
}

export function Search({ place }: { readonly place: Place }) {
  const query = place.query.get("q") ?? "";
  const [text, setText] = useState(query);
  const timer = useRef<ReturnType<typeof setTimeout>>();
  const path = query === "" ? null : `/search?limit=100&q=${encodeURIComponent(query)}`;
  const { data, error, reload } = useGet<{ results: readonly Hit[]; total: number }>(path);
  const now = useNow();
  const type = (value: string) => {
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      const words = value.trim();
      go(words === "" ? "/search" : `/search?q=${encodeURIComponent(words)}`, { replace: true });
    }, 250);
  };
  return (
    <main class="screen" id="main">
      <header class="screen-head">
        <h1>Search</h1>
        <span class="count" role="status">
          {data === undefined || query === "" ? "" : plural(data.total, "match", "matches")}
        </span>
      </header>
      <search class="filters">
        <label class="field is-search is-wide">
          <Icon name="search" />
          <span class="hidden">Words in any conversation</span>
          <input
            type="search"
            id="filter"
            autoFocus
            placeholder="Words in any conversation"
            value={text}
            onInput={(event) => type(event.currentTarget.value)}
          />
        </label>
      </search>
      {error === undefined ? null : <Failure error={error} onRetry={reload} />}
      {path !== null && data === undefined && error === undefined ? <Skeleton /> : null}
      {query === "" ? (
        <Empty title="Search all conversations">
          <p>Messages, answers and tool calls of every run, old and new.</p>
        </Empty>
      ) : null}
      {query !== "" && data?.results.length === 0 ? <Empty title="Nothing was found" /> : null}
      {query === "" || data === undefined || data.results.length === 0 ? null : (
        <ul class="cards">
          {data.results.map((hit, at) => (
            <li key={at}>
              <HitLine hit={hit} now={now} />
            </li>
          ))}
        </ul>
      )}
    </main>
  );
}

function HitLine({ hit, now }: { readonly hit: Hit; readonly now: number }) {
  return (
    <a class="hit" href={`/runs/${hit.handle}`}>
      <span class="hit-head dim">
        <span class="is-engine">{safeLine(hit.engine, 16)}</span>
        <span class="cut">{safeLine(hit.title ?? hit.handle, 80)}</span>
        <span class="grow" />
        <span>
          {safeLine(hit.kind, 12)}, attempt {hit.attempt}
          {hit.at === null ? "" : `, ${moment(hit.at, now)}`}
        </span>
      </span>
      <span class="hit-line">{marked(hit)}</span>
    </a>
  );
}

/** The line in pieces, so that each match is marked and each piece is made harmless for itself. */
function marked({ line, ranges }: Hit) {
  const parts = [];
  let at = 0;
  for (const [from, to] of ranges) {
    if (from < at || to > line.length) continue;
    parts.push(safeLine(line.slice(at, from)), <mark>{safeLine(line.slice(from, to))}</mark>);
    at = to;
  }
  return [...parts, safeLine(line.slice(at))];
}

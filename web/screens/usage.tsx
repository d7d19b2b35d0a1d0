/** Tokens, cost and limits of all runs, as bars. */
import { useState } from "preact/hooks";
import { useGet } from "../api.ts";
import { count, folder, money, moment, plural, safeLine } from "../format.ts";
import { Empty, Failure, Skeleton, useNow } from "../parts/common.tsx";
import { Icon } from "../parts/icons.tsx";

interface Sum {
  readonly runs: number;
  readonly attempts: number;
  readonly uncounted: number;
  readonly input: number | null;
  readonly output: number | null;
  readonly cached: number | null;
  readonly costUsd: number | null;
}

interface Group extends Sum {
  readonly key: string;
}

interface UsageReport {
  readonly groups: readonly Group[];
  readonly total: Sum;
  readonly limits: readonly {
    readonly handle: string;
    readonly engine: string;
    readonly kind: string;
    readonly at: string;
    readonly resetsAt: string | null;
  }[];
}

const BY = ["day", "engine", "model", "folder"];
const SINCE = [
  ["7d", "7 days"],
  ["30d", "30 days"],
  ["0", "All"],
] as const;

export function Usage() {
  const [by, setBy] = useState("day");
  const [since, setSince] = useState("30d");
  const { data, error, reload } = useGet<UsageReport>(`/usage?by=${by}&since=${since}`, ["usage"]);
  const now = useNow();
  return (
    <main class="screen" id="main">
      <header class="screen-head">
        <h1>Usage</h1>
      </header>
      <div class="filters">
        <Chips
          label="Group by"
          value={by}
          onChange={setBy}
          options={BY.map((name) => [name, `By ${name}`])}
        />
        <Chips label="Period" value={since} onChange={setSince} options={SINCE} />
      </div>
      {error === undefined ? null : <Failure error={error} onRetry={reload} />}
      {data === undefined && error === undefined ? <Skeleton /> : null}
      {data === undefined ? null : <Report report={data} by={by} now={now} />}
    </main>
  );
}

interface ChipsProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly options: readonly (readonly [value: string, text: string])[];
}

function Chips({ label, value, onChange, options }: ChipsProps) {
  return (
    <div class="chips" role="group" aria-label={label}>
      {options.map(([id, text]) => (
        <button key={id} type="button" class="chip" aria-pressed={value === id} onClick={() => onChange(id)}>
          {text}
        </button>
      ))}
    </div>
  );
}

const used = ({ input, output }: Sum): number => (input ?? 0) + (output ?? 0);

function Report({
  report,
  by,
  now,
}: {
  readonly report: UsageReport;
  readonly by: string;
  readonly now: number;
}) {
  const { groups, total, limits } = report;
  if (total.attempts === 0) return <Empty title="No attempts in this period" />;
  return (
    <>
      <dl class="sums">
        <Figure name="Input" value={count(total.input ?? 0)} />
        <Figure name="Output" value={count(total.output ?? 0)} />
        {total.cached === null ? null : <Figure name="Cached" value={count(total.cached)} />}
        {total.costUsd === null ? null : <Figure name="Cost" value={money(total.costUsd)} />}
        <Figure name="Runs" value={count(total.runs)} />
        <Figure name="Attempts" value={count(total.attempts)} />
      </dl>
      <section aria-label={`Tokens by ${by}`}>
        <Bars groups={groups} by={by} />
        {total.uncounted === 0 ? null : (
          <p class="dim">{plural(total.uncounted, "attempt")} without a count: the engine reported none.</p>
        )}
      </section>
      {limits.length === 0 ? null : (
        <section aria-labelledby="h-limits">
          <h2 id="h-limits">Limits that were hit</h2>
          <ul class="cards">
            {limits.map((limit, at) => (
              <li key={at}>
                <a class="line-card" href={`/runs/${limit.handle}`}>
                  <Icon name="clock" />
                  <span class="is-engine">{safeLine(limit.engine, 16)}</span>
                  <span class="grow">{safeLine(limit.kind.replaceAll("_", " "), 40)}</span>
                  <span class="dim">
                    {moment(limit.at, now)}
                    {limit.resetsAt === null ? "" : `, until ${moment(limit.resetsAt, now)}`}
                  </span>
                </a>
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

function Figure({ name, value }: { readonly name: string; readonly value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

/** A table with a bar per row: readable without the drawing. */
function Bars({ groups, by }: { readonly groups: readonly Group[]; readonly by: string }) {
  const most = Math.max(1, ...groups.map(used));
  return (
    <table class="bars">
      <thead>
        <tr>
          <th scope="col">{by.charAt(0).toUpperCase() + by.slice(1)}</th>
          <th scope="col" class="bar-cell">
            Tokens
          </th>
          <th scope="col" class="is-number">
            In
          </th>
          <th scope="col" class="is-number">
            Out
          </th>
          <th scope="col" class="is-number">
            Cost
          </th>
        </tr>
      </thead>
      <tbody>
        {groups.map((group) => (
          <tr key={group.key}>
            <th scope="row" title={safeLine(group.key)}>
              {by === "folder" ? folder(group.key) : safeLine(group.key, 40) || "unknown"}
            </th>
            <td class="bar-cell">
              <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
                <rect class="bar-in" x="0" y="0" height="10" width={((group.input ?? 0) / most) * 100} />
                <rect
                  class="bar-out"
                  x={((group.input ?? 0) / most) * 100}
                  y="0"
                  height="10"
                  width={((group.output ?? 0) / most) * 100}
                />
              </svg>
            </td>
            <td class="is-number">{count(group.input ?? 0)}</td>
            <td class="is-number">{count(group.output ?? 0)}</td>
            <td class="is-number">{group.costUsd === null ? "" : money(group.costUsd)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Engines, logins and findings: `reprise doctor` as a screen. */
import { useGet } from "../api.ts";
import { safeLine } from "../format.ts";
import { Command, Failure, Note, Skeleton, State } from "../parts/common.tsx";

interface Checkup {
  readonly version: string;
  readonly node: string;
  readonly engines: readonly {
    readonly id: string;
    readonly title: string;
    readonly program: string | null;
    readonly version: string | null;
    readonly tested: readonly [string, string] | null;
    readonly fit: string;
    readonly login: string;
    readonly lastCompleted: { readonly handle: string; readonly at: string } | null;
  }[];
  readonly state: { readonly path: string; readonly freeBytes: number };
  readonly index: { readonly backend: string; readonly version: string; readonly runs: number };
  readonly findings: readonly {
    readonly level: string;
    readonly about: string;
    readonly what: string;
    readonly todo?: string | null;
  }[];
}

const LEVELS: Readonly<Record<string, "bad" | "warn" | "note">> = {
  error: "bad",
  problem: "bad",
  warning: "warn",
};

export function Doctor() {
  const { data, error, reload } = useGet<Checkup>("/doctor");
  return (
    <main class="screen" id="main">
      <header class="screen-head">
        <h1>Doctor</h1>
      </header>
      {error === undefined ? null : <Failure error={error} onRetry={reload} />}
      {data === undefined && error === undefined ? <Skeleton /> : null}
      {data === undefined ? null : <Found checkup={data} />}
    </main>
  );
}

function Found({ checkup }: { readonly checkup: Checkup }) {
  return (
    <>
      <section aria-labelledby="h-findings" class="findings">
        <h2 id="h-findings">Findings</h2>
        {checkup.findings.length === 0 ? <Note level="good">Everything is fine.</Note> : null}
        {checkup.findings.map((finding, at) => (
          <Note key={at} level={LEVELS[finding.level] ?? "note"}>
            <strong>{safeLine(finding.about, 40)}:</strong> {safeLine(finding.what, 400)}
            {typeof finding.todo === "string" && finding.todo !== "" ? (
              <>
                {" "}
                <Command>{safeLine(finding.todo, 200)}</Command>
              </>
            ) : null}
          </Note>
        ))}
      </section>
      <section aria-labelledby="h-engines">
        <h2 id="h-engines">Engines</h2>
        <div class="table-box" tabIndex={0} role="region" aria-label="Table of engines">
          <table class="facts-table">
            <thead>
              <tr>
                <th scope="col">Engine</th>
                <th scope="col">Version</th>
                <th scope="col">Tested</th>
                <th scope="col">Login</th>
                <th scope="col">Last completed</th>
              </tr>
            </thead>
            <tbody>
              {checkup.engines.map((engine) => (
                <tr key={engine.id}>
                  <th scope="row" class="is-engine">
                    {safeLine(engine.title, 40)}
                  </th>
                  <td>
                    {engine.program === null ? (
                      <span class="dim">not installed</span>
                    ) : (
                      safeLine(engine.version ?? "unknown", 30)
                    )}
                  </td>
                  <td class="dim">
                    {engine.tested === null ? "" : safeLine([...new Set(engine.tested)].join(" – "), 40)}
                  </td>
                  <td>
                    {engine.program === null ? (
                      ""
                    ) : (
                      <State state={engine.login === "yes" ? "done" : engine.login} />
                    )}
                  </td>
                  <td>
                    {engine.lastCompleted === null ? (
                      ""
                    ) : (
                      <a class="mono" href={`/runs/${engine.lastCompleted.handle}`}>
                        {engine.lastCompleted.handle}
                      </a>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </section>
      <Place checkup={checkup} />
    </>
  );
}

function Place({ checkup }: { readonly checkup: Checkup }) {
  const gib = (checkup.state.freeBytes / 1024 ** 3).toFixed(0);
  return (
    <section aria-labelledby="h-place">
      <h2 id="h-place">This installation</h2>
      <dl class="pairs">
        <dt>Reprise</dt>
        <dd>
          {safeLine(checkup.version, 20)}, Node {safeLine(checkup.node, 20)}
        </dd>
        <dt>State</dt>
        <dd class="mono">{safeLine(checkup.state.path)}</dd>
        <dt>Free</dt>
        <dd>{gib} GiB</dd>
        <dt>Index</dt>
        <dd>
          {safeLine(checkup.index.backend, 20)} {safeLine(checkup.index.version, 20)}, {checkup.index.runs}{" "}
          runs
        </dd>
      </dl>
    </section>
  );
}

/** Runs that address the comments of pull requests. */
import { useGet } from "../api.ts";
import { plural, safeLine } from "../format.ts";
import { Command, Empty, Failure, Skeleton, useNow } from "../parts/common.tsx";
import type { RunRow } from "../types.ts";
import { RunLine } from "./inbox.tsx";

interface Review extends RunRow {
  readonly pull?: string;
}

export function Reviews() {
  const { data, error, reload } = useGet<{ reviews: readonly Review[] }>("/reviews", ["inbox"]);
  const now = useNow();
  return (
    <main class="screen" id="main">
      <header class="screen-head">
        <h1>Reviews</h1>
        <span class="count" role="status">
          {data === undefined ? "" : plural(data.reviews.length, "review")}
        </span>
      </header>
      {error === undefined ? null : <Failure error={error} onRetry={reload} />}
      {data === undefined && error === undefined ? <Skeleton /> : null}
      {data?.reviews.length === 0 ? (
        <Empty title="No reviews">
          <p>
            Let Codex address the comments of a pull request: <Command>reprise review</Command>
          </p>
        </Empty>
      ) : null}
      {data === undefined || data.reviews.length === 0 ? null : (
        <ul class="cards">
          {data.reviews.map((review) => (
            <li key={review.handle}>
              <RunLine
                run={review}
                now={now}
                href={`/runs/${review.handle}`}
                detail={safeLine(review.pull, 80)}
              />
            </li>
          ))}
        </ul>
      )}
    </main>
  );
}

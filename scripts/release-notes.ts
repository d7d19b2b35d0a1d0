/** What a release makes of versions and of the changelog. Pure. */

/** Whether `next` is a plain version (X.Y.Z) that comes after `before`. */
export function isNewer(next: string, before: string): boolean {
  const [one, other] = [parts(next), parts(before)];
  if (one === null || other === null) return false;
  const at = one.findIndex((part, index) => part !== other[index]);
  return at !== -1 && (one[at] ?? 0) > (other[at] ?? 0);
}

function parts(version: string): readonly number[] | null {
  return /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$/.exec(version)?.slice(1).map(Number) ?? null;
}

/** The entries under `## Unreleased` get the version and the day (UTC). Null: no entries. */
export function datedChangelog(text: string, version: string, now: Date): string | null {
  const [head, rest] = text.split(/^## Unreleased\n/m);
  const entries = rest?.split(/^## /m)[0]?.trim() ?? "";
  if (head === undefined || rest === undefined || entries === "") return null;
  return `${head}## Unreleased\n\n## ${version} - ${now.toISOString().slice(0, 10)}\n${rest}`;
}

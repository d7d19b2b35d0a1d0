import { availableParallelism } from "node:os";

/** Several trials at a time: they wait for processes more than they compute. */
export async function inParallel<T>(
  items: readonly T[],
  work: (item: T) => Promise<void>,
  most = 3 * availableParallelism(),
): Promise<void> {
  const waiting = [...items];
  const worker = async () => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: most }, worker));
}

/** So that those that wait come beside those that compute. */
export function shuffled<T>(items: readonly T[], chance: () => number): T[] {
  return items
    .map((item) => ({ item, place: chance() }))
    .toSorted((one, other) => one.place - other.place)
    .map(({ item }) => item);
}

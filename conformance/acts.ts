/** What a case can do to an engine's files and processes between two attempts. */
import type { World } from "./interpret.ts";

const ACTS: Readonly<Record<string, (world: World) => Promise<void> | void>> = {};

export async function act(world: World, name: string): Promise<void> {
  const found = ACTS[name];
  if (found === undefined) throw new Error(`no such act: ${name}; there are ${Object.keys(ACTS).join(", ")}`);
  await found(world);
}

/** The acts of a case on an engine's files between two attempts. The conformance suite adds more. */
import { existsSync, rmSync } from "node:fs";
import type { LabAct, LabWorld } from "./world.ts";

const ACTS: Readonly<Record<string, LabAct>> = {
  /** Removes the engine's copy of this conversation. */
  "delete-session": ({ lab, place, shown }) => {
    const files = sessionFiles({ lab, place, shown });
    for (const file of files ?? lab.storeFiles(place)) rmSync(file, { recursive: true });
  },
  /** Removes everything that the engine keeps; the settings are written again before the next step. */
  "wipe-home": ({ lab, place }) => rmSync(lab.engineHome(place), { recursive: true }),
};

export async function act(world: LabWorld, line: string): Promise<void> {
  const [name = "", ...words] = line.split(" ");
  const all = { ...world.extras?.acts, ...ACTS };
  const found = all[name];
  if (found === undefined) throw new Error(`no such act: ${name}; there are ${Object.keys(all).join(", ")}`);
  await found(world, words);
}

export function sessionOf({ shown }: Pick<LabWorld, "shown">): string {
  const session = shown?.session.value ?? null;
  if (session === null) throw new Error("the run has no session yet");
  return session;
}

/** Null: the engine keeps all conversations in one database. */
export function sessionFiles(world: Pick<LabWorld, "lab" | "place" | "shown">): readonly string[] | null {
  const files = world.lab.sessionFiles(world.place, sessionOf(world));
  if (files?.length === 0 || files?.some((file) => !existsSync(file)) === true) {
    throw new Error("the engine has no file of this session");
  }
  return files;
}

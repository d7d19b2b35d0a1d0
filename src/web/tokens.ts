/** Bearer tokens of scripts, in `web/tokens.json` of the state directory: hashes, names and rights. */
import { join } from "node:path";
import { statSync } from "node:fs";
import { Fault } from "../core/faults.ts";
import { arrayIn, stringIn } from "../lib/json.ts";
import { makeDirectory, MAX_RECORD_BYTES, readRecord, writeAtomic } from "../state/files.ts";
import { type StateDir, sharedLock } from "../state/directory.ts";
import { inTurn } from "../store/store.ts";
import { hashOf, newSecret, RIGHTS, type StoredToken } from "./access.ts";

const MOST_TOKENS = 100;

const tokensFile = (state: Pick<StateDir, "root">) => join(state.root, "web", "tokens.json");

export function readTokens(state: Pick<StateDir, "root">): readonly StoredToken[] {
  return arrayIn(readRecord(tokensFile(state), MAX_RECORD_BYTES), "tokens").flatMap((value) => {
    const [id, name, hash, createdAt] = ["id", "name", "hash", "createdAt"].map((key) =>
      stringIn(value, key),
    );
    if (id === undefined || name === undefined || hash === undefined || createdAt === undefined) return [];
    const rights = RIGHTS.find((right) => right === stringIn(value, "rights")) ?? "read";
    return [{ id, name, hash, createdAt, rights }];
  });
}

/** Reads the file again only after a change. */
export function tokensOf(state: Pick<StateDir, "root">): () => readonly StoredToken[] {
  let stamp = "";
  let tokens: readonly StoredToken[] = [];
  return () => {
    const stats = statSync(tokensFile(state), { throwIfNoEntry: false });
    const now = stats === undefined ? "none" : `${stats.mtimeMs} ${stats.size} ${stats.ino}`;
    if (now !== stamp) {
      // A damaged file names no token; `reprise web tokens` reports it.
      tokens = stats === undefined ? [] : tokensOr(state, []);
      stamp = now;
    }
    return tokens;
  };
}

function tokensOr(state: Pick<StateDir, "root">, otherwise: readonly StoredToken[]): readonly StoredToken[] {
  try {
    return readTokens(state);
  } catch (error) {
    if (error instanceof Fault) return otherwise;
    throw error;
  }
}

/** The secret is shown once. */
export async function addToken(
  state: StateDir,
  { name, rights, createdAt }: Pick<StoredToken, "name" | "rights" | "createdAt">,
): Promise<{ readonly secret: string; readonly token: StoredToken }> {
  const secret = newSecret();
  const hash = hashOf(secret);
  const token = { id: hash.slice(0, 8), name, rights, hash, createdAt };
  await change(state, (tokens) => {
    if (tokens.some((one) => one.name === name))
      throw new Fault(
        "name_taken",
        `A token ${JSON.stringify(name)} exists. Revoke it: reprise web revoke ${name}`,
        {
          facts: { name },
        },
      );
    if (tokens.length >= MOST_TOKENS)
      throw new Fault(
        "usage",
        `There are ${MOST_TOKENS} tokens already. Revoke one: reprise web revoke NAME`,
      );
    return [...tokens, token];
  });
  return { secret, token };
}

export async function revokeToken(state: StateDir, nameOrId: string): Promise<StoredToken> {
  let gone: StoredToken | undefined;
  await change(state, (tokens) => {
    gone = tokens.find(({ id, name }) => name === nameOrId || id === nameOrId);
    return tokens.filter((one) => one !== gone);
  });
  if (gone === undefined)
    throw new Fault(
      "handle_unknown",
      `There is no token ${JSON.stringify(nameOrId.slice(0, 80))}. List them: reprise web tokens`,
      { facts: { given: nameOrId.slice(0, 80) } },
    );
  return gone;
}

async function change(
  state: StateDir,
  next: (tokens: readonly StoredToken[]) => readonly StoredToken[],
): Promise<void> {
  if (state.refusal !== null) throw state.refusal;
  await inTurn(sharedLock(state), () => {
    const tokens = next(readTokens(state));
    makeDirectory(join(state.root, "web"));
    writeAtomic(tokensFile(state), `${JSON.stringify({ v: 1, tokens }, null, 2)}\n`);
  });
}

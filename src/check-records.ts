/**
 * No writer may produce a record that its reader rejects. On in tests (`REPRISE_CHECK_RECORDS=1`): checks every record
 * at its write, and a rejected record is our bug (exit 70).
 */
import { basename } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { z } from "zod";
import { checkWrites } from "./state/files.ts";
import {
  agentSchema,
  attemptSchema,
  labelSchema,
  receiptSchema,
  runSchema,
  scheduledSchema,
  startSchema,
} from "./core/schemas.ts";
import { readBatch } from "./issues/metadata.ts";
import { hasDuplicateKeys, isObject, type JsonObject, parseJson } from "./lib/json.ts";
import { Sidecar } from "./reviews/sidecar.ts";

/** By suffix of the file name. */
const SCHEMAS: Readonly<Record<string, z.ZodType>> = {
  "run.json": runSchema,
  "label.json": labelSchema,
  "meta.json": attemptSchema,
  "receipt.json": receiptSchema,
  "start.json": startSchema,
  "agent.json": agentSchema,
  ".session.json": Sidecar,
};
/** Named after its run. */
const SCHEDULED = /^\d{8}T\d{6}Z-.+-[0-9a-f]{8}\.json$/;
const BATCH = /^\d{8}T\d{6}Z_[0-9a-f]{8}\.json$/;

export function checkRecords(): void {
  checkWrites((path, data) => {
    const wrong = wrongWith(basename(path), String(data));
    if (wrong !== null) throw new Error(`${path} was written, and its own reader rejects it: ${wrong}`);
  });
}

/** Why the reader of this file would reject the text. Null: it would not, or the file is not a record. */
export function wrongWith(name: string, text: string): string | null {
  if (!/\.(?:json|owner)$/.test(name)) return null;
  const value = parseJson(text);
  if (!isObject(value)) return "it is not a JSON object";
  if (hasDuplicateKeys(text)) return "it names a key twice";
  if (BATCH.test(name)) return lostInBatch(value);
  const [, schema] = SCHEDULED.test(name)
    ? [name, scheduledSchema]
    : (Object.entries(SCHEMAS).find(([end]) => name.endsWith(end)) ?? []);
  const checked = schema?.safeParse(value);
  return checked === undefined || checked.success ? null : checked.error.message;
}

/** A batch's reader keeps only what it understands, which must be everything. */
function lostInBatch(written: JsonObject): string | null {
  const read = { ...readBatch(written) } as JsonObject;
  const lost = Object.keys(written).find((key) => !isDeepStrictEqual(written[key], read[key]));
  return lost === undefined ? null : `its ${lost} is read as something else`;
}

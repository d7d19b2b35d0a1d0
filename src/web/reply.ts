/** What a route answers. */
import type { JsonObject } from "../lib/json.ts";

export interface Reply {
  readonly status: number;
  readonly body: JsonObject;
}

/** Raw bytes instead of JSON. */
export interface BytesReply {
  readonly bytes: Buffer;
  readonly headers: Readonly<Record<string, string>>;
}

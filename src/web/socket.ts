/** Messages on the WebSocket of a page, and how much of them it may leave unread. */
import type { WebSocket } from "ws";
import { type JsonObject, parseObject } from "../lib/json.ts";

const MAX_UNREAD = 4 * 1024 * 1024;

/** Drops a page that does not read, so that its unread data cannot fill our memory. */
export function say(ws: WebSocket, message: JsonObject): void {
  if (ws.bufferedAmount > MAX_UNREAD) ws.terminate();
  else if (ws.readyState === ws.OPEN) ws.send(JSON.stringify(message));
}

/** Undefined: not a JSON object. */
export function heardIn(data: unknown, isBinary: boolean): JsonObject | undefined {
  return isBinary || !Buffer.isBuffer(data) ? undefined : parseObject(data.toString("utf8"));
}

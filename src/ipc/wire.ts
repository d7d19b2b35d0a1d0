/**
 * The protocol of a control socket: one JSON object per line, each way. Pure: bytes in, frames out.
 *
 * A line that is too long or not an object ends the connection.
 */
import { type FaultFacts, Fault, type FaultCode, FAULTS } from "../core/faults.ts";
import { fieldIn, isObject, type JsonObject, objectIn, parseObject, stringIn } from "../lib/json.ts";
import { LineSplitter } from "../lib/lines.ts";

export const MAX_FRAME_BYTES = 1024 * 1024;
const LINE_FEED = 10;

/** The other side violates the protocol. */
export class ProtocolError extends Error {}

/** Throws a Fault if the frame exceeds the other side's limit. */
export function encode(frame: JsonObject): Buffer {
  const bytes = Buffer.from(`${JSON.stringify(frame)}\n`);
  if (bytes.length - 1 <= MAX_FRAME_BYTES) return bytes;
  throw new Fault("message_invalid", "The message to the other process is longer than 1 MiB.", {
    facts: { bytes: bytes.length },
  });
}

export class FrameReader {
  readonly #lines = new LineSplitter(MAX_FRAME_BYTES);
  /** Length of the unfinished line. */
  #unfinished = 0;

  /** Throws `Garbled`. */
  read(chunk: Buffer): readonly JsonObject[] {
    const last = chunk.lastIndexOf(LINE_FEED);
    this.#unfinished = last === -1 ? this.#unfinished + chunk.length : chunk.length - last - 1;
    if (this.#unfinished > MAX_FRAME_BYTES) throw new ProtocolError("a line without an end");
    return this.#lines.push(chunk).map((line) => {
      const frame = parseObject(line);
      if (frame === undefined) throw new ProtocolError("a line that is not a JSON object");
      return frame;
    });
  }
}

export function encodeFault(fault: Fault): JsonObject {
  return { code: fault.code, message: fault.message, facts: fault.facts };
}

/** Null: not the description of a fault. */
export function decodeFault(value: unknown): Fault | null {
  const code = stringIn(value, "code");
  const message = stringIn(value, "message");
  if (code === undefined || message === undefined || !isFaultCode(code)) return null;
  return new Fault(code, message, { facts: knownFacts(objectIn(value, "facts") ?? {}) });
}

function isFaultCode(code: string): code is FaultCode {
  return Object.hasOwn(FAULTS, code);
}

function knownFacts(given: JsonObject): FaultFacts {
  const facts: Record<string, FaultFacts[string]> = {};
  for (const key of Object.keys(given)) {
    const value = fieldIn(given, key);
    if (typeof value === "string" || typeof value === "number" || typeof value === "boolean")
      facts[key] = value;
    else if (Array.isArray(value)) facts[key] = value.map(String);
  }
  return facts;
}

/** The parameters of a call, if it has any. */
export function paramsOf(frame: JsonObject): JsonObject {
  const params = fieldIn(frame, "params");
  return isObject(params) ? params : {};
}

/** Whole frames come out however the bytes arrive; anything else ends the conversation. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { Fault } from "../core/faults.ts";
import { decodeFault, encode, encodeFault, FrameReader, ProtocolError, MAX_FRAME_BYTES } from "./wire.ts";

test("an encoded frame is read back wherever it is cut", () => {
  fc.assert(
    fc.property(
      fc.array(fc.dictionary(fc.string(), fc.jsonValue()), { maxLength: 5 }),
      fc.array(fc.nat(200), { maxLength: 20 }),
      (values, cuts) => {
        const frames = values.map((value) => JSON.parse(JSON.stringify({ ...value })));
        const all = Buffer.concat(frames.map((frame) => encode(frame)));
        const reader = new FrameReader();
        const read: unknown[] = [];
        let from = 0;
        for (const cut of cuts) {
          read.push(...reader.read(all.subarray(from, from + cut)));
          from += cut;
        }
        read.push(...reader.read(all.subarray(from)));
        expect(read).toEqual(frames);
      },
    ),
  );
});

test.each([
  ["no JSON", "hello\n"],
  ["a list", "[]\n"],
  ["nothing", "\n"],
  ["text", '"x"\n'],
  ["two on a line", "{}{}\n"],
  ["a line that is too long", `{"x":"${"x".repeat(MAX_FRAME_BYTES)}"}\n`],
  ["a line without an end", "x".repeat(MAX_FRAME_BYTES + 1)],
])("%s is refused", (_name, text) => {
  expect(() => new FrameReader().read(Buffer.from(text))).toThrow(ProtocolError);
});

test("a line without an end is also refused in small pieces", () => {
  const reader = new FrameReader();
  expect(() => {
    for (let n = 0; n < 20; n += 1) reader.read(Buffer.alloc(100_000, 0x61));
  }).toThrow(ProtocolError);
});

test("a frame that no reader accepts is not made", () => {
  expect(encode({ x: "y".repeat(MAX_FRAME_BYTES - 8) })).toHaveLength(MAX_FRAME_BYTES + 1);
  expect(() => encode({ x: "y".repeat(MAX_FRAME_BYTES - 7) })).toThrow(Fault);
});

const faults: Record<string, [given: unknown, then: unknown]> = {
  "a fault": [
    encodeFault(new Fault("run_busy", "Not now.", { facts: { a: 1, b: "x", c: true, d: ["y"] } })),
    { code: "run_busy", message: "Not now.", facts: { a: 1, b: "x", c: true, d: ["y"] } },
  ],
  "facts of other kinds are left out": [
    { code: "usage", message: "x", facts: { a: { b: 1 }, c: null } },
    { code: "usage", message: "x", facts: {} },
  ],
  "an unknown code": [{ code: "toString", message: "x" }, null],
  "no message": [{ code: "usage" }, null],
  "no object": ["usage", null],
};

test.each(Object.entries(faults))("%s", (_name, [given, then]) => {
  const fault = decodeFault(given);
  expect(fault === null ? null : { code: fault.code, message: fault.message, facts: fault.facts }).toEqual(
    then,
  );
});

import { appendFileSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { followStream, readStream } from "./logs.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "reprise-logs-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

async function collect(chunks: AsyncIterable<Buffer>): Promise<Buffer> {
  const all: Buffer[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return Buffer.concat(all);
}

test("reads a whole log, from a byte on, or its end", async () => {
  const content = Buffer.from(Array.from({ length: 300_000 }, (_, at) => at % 251));
  writeFileSync(join(dir, "stdout.log"), content);
  expect((await collect(readStream(dir, "stdout"))).equals(content)).toBe(true);
  expect(
    (await collect(readStream(dir, "stdout", { fromByte: 200_001 }))).equals(content.subarray(200_001)),
  ).toBe(true);
  expect(await collect(readStream(dir, "stdout", { tailBytes: 10 }))).toEqual(content.subarray(-10));
  expect((await collect(readStream(dir, "stdout", { tailBytes: 1e9 }))).length).toBe(300_000);
  expect((await collect(readStream(dir, "stdout", { fromByte: 1e9 }))).length).toBe(0);
});

test("refuses a log that is missing or not ours", async () => {
  symlinkSync("/etc/passwd", join(dir, "stderr.log"));
  await expect(collect(readStream(dir, "stdout"))).rejects.toMatchObject({ code: "attempt_unknown" });
  await expect(collect(readStream(dir, "stderr"))).rejects.toMatchObject({ code: "denied" });
});

test("follows a log until the attempt has ended, and misses nothing", async () => {
  const path = join(dir, "pty-output.log");
  writeFileSync(path, "0\n");
  let looks = 0;
  const ended = () => {
    looks += 1;
    if (looks === 3) truncateSync(path, 0);
    appendFileSync(path, `${looks}\n`);
    return looks === 5;
  };
  expect((await collect(followStream(dir, "pty-output", { ended }))).toString()).toBe("0\n1\n2\n3\n4\n5\n");
});

test("stops following when asked to", async () => {
  writeFileSync(join(dir, "stdout.log"), "a");
  const controller = new AbortController();
  const chunks: string[] = [];
  const options = { ended: () => false, signal: controller.signal };
  for await (const chunk of followStream(dir, "stdout", options)) {
    chunks.push(chunk.toString());
    controller.abort();
  }
  expect(chunks).toEqual(["a"]);
});

import { describe, expect, test } from "vitest";
import { plainText, renderScreen } from "./plain.ts";

async function* inChunks(text: string | Buffer, size: number): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(text as string);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function all(parts: AsyncIterable<string>): Promise<string> {
  let text = "";
  for await (const part of parts) text += part;
  return text;
}

describe("plainText", () => {
  test.each([
    ["nothing at all", "", ""],
    ["lines stay", "one\ntwo\n", "one\ntwo\n"],
    ["no line feed at the end", "one\ntwo", "one\ntwo"],
    ["CRLF", "one\r\ntwo\r\n", "one\ntwo\n"],
    ["colours", "\x1b[31mred\x1b[0m\n", "red\n"],
    ["a clipboard and a title", "a\x1b]52;c;ZXZpbA==\x07b\x1b]0;title\x07c\n", "abc\n"],
    ["a progress bar", "10 %\r50 %\r100 %\n", "100 %\n"],
    ["UTF-8 split across chunks", "grün 🙂\n", "grün 🙂\n"],
  ])("%s", async (_, given, then) => {
    expect(await all(plainText(inChunks(given, 5)))).toBe(then);
    expect(await all(plainText(inChunks(given, 1_000)))).toBe(then);
  });

  test("invalid UTF-8 is replaced", async () => {
    expect(await all(plainText(inChunks(Buffer.from([0x61, 0xff, 0x62, 0x0a]), 2)))).toBe("a\ufffdb\n");
  });

  test("a line without an end is passed on in pieces", async () => {
    const parts: string[] = [];
    for await (const part of plainText(inChunks("x".repeat(300_000), 4_096))) parts.push(part);
    expect(parts.join("")).toBe("x".repeat(300_000));
    expect(Math.max(...parts.map((part) => part.length))).toBeLessThan(80_000);
  });
});

describe("renderScreen", () => {
  const size = { columns: 20, rows: 5 };
  test.each([
    ["text that was overwritten", "one\x1b[1;1HONE\r\n\r\ntwo", "ONE\n\ntwo\n"],
    ["more than a screen", "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n", "1\n2\n3\n4\n5\n6\n7\n"],
    ["a wrapped line is one line", `${"ab".repeat(15)}\r\n`, `${"ab".repeat(15)}\n`],
    ["a UI that is still there", "before\r\n\x1b[?1049h\x1b[2J\x1b[HUI", "before\nUI\n"],
    ["a UI that was left", "before\r\n\x1b[?1049h\x1b[2J\x1b[HUI\x1b[?1049lafter", "before\nafter\n"],
    ["titles and clipboards", "\x1b]0;t\x07\x1b]52;c;eA==\x07x", "x\n"],
    ["nothing", "", ""],
  ])("%s", async (_, given, then) => {
    expect(await all(renderScreen(inChunks(given, 3), size))).toBe(then);
  });
});

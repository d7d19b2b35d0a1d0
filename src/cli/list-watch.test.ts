import { expect, test } from "vitest";
import { frameOf } from "./list-watch.ts";

const textOf = (frame: ReturnType<typeof frameOf>) =>
  frame.map((line) => line.map(({ text }) => text).join(""));

test("a frame fills the height and names what does not fit", () => {
  const rows = Array.from({ length: 9 }, (_, n) => ({ text: `row ${n}` }));
  expect(textOf(frameOf(rows, 40, 4))).toEqual(["row 0", "row 1", "row 2", "6 more below; q leaves"]);
  expect(textOf(frameOf(rows.slice(0, 1), 40, 4))).toEqual(["row 0", "", "", "q leaves"]);
});

test("a frame is never wider than the terminal, and shows the status in its colour", () => {
  const [line = []] = frameOf([{ text: "1a2b3c4d  demo  failed  1", status: "failed" }], 30, 2);
  expect(line).toContainEqual({ text: "failed", style: "bad" });
  for (const text of textOf(frameOf([{ text: "x".repeat(200) }], 30, 2)))
    expect(text.length).toBeLessThan(31);
});

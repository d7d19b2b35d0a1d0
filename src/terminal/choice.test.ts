import { expect, test } from "vitest";
import { FIRST, kept, moved } from "./choice.ts";

test.each([
  ["down", { cursor: 0, top: 0 }, { cursor: 1, top: 0 }],
  ["up", { cursor: 0, top: 0 }, { cursor: 0, top: 0 }],
  ["ctrl-n", { cursor: 4, top: 0 }, { cursor: 5, top: 1 }],
  ["ctrl-p", { cursor: 3, top: 3 }, { cursor: 2, top: 2 }],
  ["pagedown", { cursor: 0, top: 0 }, { cursor: 4, top: 0 }],
  ["pagedown", { cursor: 8, top: 5 }, { cursor: 9, top: 5 }],
  ["pageup", { cursor: 9, top: 5 }, { cursor: 5, top: 5 }],
])("%s moves from %j to %j among ten items on five rows", (key, before, after) => {
  expect(moved(before, key, 5, 10)).toEqual(after);
});

test("another key moves nothing", () => {
  expect(moved(FIRST, "x", 5, 10)).toBeNull();
  expect(moved(FIRST, "constructor", 5, 10)).toBeNull();
});

test("fewer items or rows keep the cursor on the screen", () => {
  expect(kept({ cursor: 9, top: 5 }, 5, 3)).toEqual({ cursor: 2, top: 0 });
  expect(kept({ cursor: 9, top: 5 }, 2, 10)).toEqual({ cursor: 9, top: 8 });
  expect(kept({ cursor: 3, top: 1 }, 5, 0)).toEqual({ cursor: 0, top: 0 });
});

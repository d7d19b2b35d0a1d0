import { expect, test } from "vitest";
import { plural } from "./plural.ts";

test("plural adds an s unless the number is one", () => {
  expect([plural(1, "run"), plural(2, "run"), plural(0, "directory", "directories")]).toEqual([
    "1 run",
    "2 runs",
    "0 directories",
  ]);
});

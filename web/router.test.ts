import { expect, test } from "vitest";
import { placeOf } from "./router.ts";

test.each([
  ["/", { screen: "inbox" }],
  ["/runs", { screen: "runs" }],
  ["/runs/1a2b3c4d", { screen: "run", handle: "1a2b3c4d", tab: "conversation" }],
  ["/runs/1a2b3c4d/terminal", { screen: "run", handle: "1a2b3c4d", tab: "terminal" }],
  ["/runs/1a2b3c4d/replay/3", { screen: "run", handle: "1a2b3c4d", tab: "replay", attempt: 3 }],
  ["/runs/../etc", { screen: "missing" }],
  ["/constructor", { screen: "missing" }],
])("the address %s is %j", (path, place) => {
  expect(placeOf(path)).toMatchObject(place);
});

test("the words of a filter are in the query", () => {
  expect(placeOf("/runs", "status=failed&q=a%20b").query.get("q")).toBe("a b");
});

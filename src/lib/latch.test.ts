import { expect, test } from "vitest";
import { Latch } from "./latch.ts";

test("the first value from before the listener reaches it, later ones at once", () => {
  const latch = new Latch<string>();
  const heard: string[] = [];
  latch.send("interrupt");
  latch.send("end");
  latch.listen((value) => heard.push(value));
  expect(heard).toEqual(["interrupt"]);
  latch.send("terminate");
  latch.forget();
  latch.send("end");
  expect(heard).toEqual(["interrupt", "terminate"]);
});

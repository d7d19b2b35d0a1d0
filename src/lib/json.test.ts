import { assert, jsonValue, property } from "fast-check";
import { describe, expect, test } from "vitest";
import {
  arrayIn,
  fieldIn,
  hasDuplicateKeys,
  numberIn,
  objectIn,
  parseJson,
  parseObject,
  stringIn,
} from "./json.ts";

describe("reading", () => {
  test.each(["", "{", "undefined", "{'a':1}", "\u0000"])("%j is not JSON", (text) => {
    expect(parseJson(text)).toBeUndefined();
    expect(parseObject(text)).toBeUndefined();
  });

  test.each(["null", "[]", "7", '"x"', "true"])("%s is not an object", (text) => {
    expect(parseObject(text)).toBeUndefined();
  });

  test("fields of the wrong kind are absent", () => {
    const value = parseJson('{"s":"x","n":1,"o":{"a":1},"l":[1]}');
    expect([stringIn(value, "s"), numberIn(value, "n"), objectIn(value, "o"), arrayIn(value, "l")]).toEqual([
      "x",
      1,
      { a: 1 },
      [1],
    ]);
    expect([stringIn(value, "n"), numberIn(value, "s"), objectIn(value, "l"), arrayIn(value, "o")]).toEqual([
      undefined,
      undefined,
      undefined,
      [],
    ]);
  });

  test("properties that every object inherits are not fields", () => {
    expect(fieldIn({}, "constructor")).toBeUndefined();
    expect(fieldIn(null, "x")).toBeUndefined();
  });
});

describe("hasDuplicateKeys", () => {
  const cases: Record<string, boolean> = {
    '{"a":1,"b":2}': false,
    '{"a":1,"a":2}': true,
    '{"a":1,"\\u0061":2}': true,
    '{"a":{"a":1},"b":[{"a":1},{"a":2}]}': false,
    '{"a":{"b":1,"b":2}}': true,
    '[{"a":1,"b":2,"a":3}]': true,
    '{"a":"\\"a\\":1,","b":"{\\"b\\":1}"}': false,
    '{"a":["x","x",{"c":1}],"d":"a"}': false,
    '{ "a" : 1 , "b" : "a" , "c" : { } , "a" : 2 }': true,
  };
  test.each(Object.entries(cases))("%s: %s", (text, then) => {
    expect(hasDuplicateKeys(text)).toBe(then);
  });

  test("finds none in output of JSON.stringify", () => {
    assert(property(jsonValue(), (value) => !hasDuplicateKeys(JSON.stringify(value))));
  });
});

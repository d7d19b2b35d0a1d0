/** Stored names change only on purpose. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { z } from "zod";
import {
  agentSchema,
  attemptSchema,
  labelSchema,
  receiptSchema,
  runSchema,
  startSchema,
  usedSchema,
} from "./schemas.ts";

interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly items?: Shape;
  readonly anyOf?: readonly Shape[];
}

/** `session.value`, `sessions[].at`: every stored key. */
function keysOf(shape: Shape, path = ""): string[] {
  return [
    ...Object.entries(shape.properties ?? {}).flatMap(([key, inner]) => {
      const here = path === "" ? key : `${path}.${key}`;
      return [here, ...keysOf(inner, here)];
    }),
    ...(shape.items === undefined ? [] : keysOf(shape.items, `${path}[]`)),
    ...(shape.anyOf ?? []).flatMap((inner) => keysOf(inner, path)),
  ];
}

test("test/golden/keys.json lists every stored key", () => {
  // The test of the sidecar compares review sessions.
  const { "<review>.session.json": _, ...golden } = JSON.parse(
    readFileSync(new URL("../../test/golden/keys.json", import.meta.url), "utf8"),
  ) as Record<string, unknown>;
  const schemas = {
    "run.json": runSchema,
    "label.json": labelSchema,
    "meta.json": attemptSchema,
    "receipt.json": receiptSchema,
    "start.json": startSchema,
    "agent.json": agentSchema,
    "removed-usage.jsonl": usedSchema,
  };
  const keys = Object.entries(schemas).map(([file, schema]) => [
    file,
    keysOf(z.toJSONSchema(schema, { unrepresentable: "any" }) as Shape),
  ]);
  expect(Object.fromEntries(keys)).toEqual(golden);
});

/** The OpenAPI document of the API, made from the table of routes. */
import { z } from "zod";
import type { JsonObject } from "../lib/json.ts";
import { type Route, ROUTES } from "./routes.ts";

export function openApi(version: string): JsonObject {
  const paths: Record<string, Record<string, JsonObject>> = {};
  for (const route of ROUTES) {
    const path = `/api/v1${route.path.replaceAll(/:(\w+)/g, "{$1}")}`;
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Reprise",
      version,
      description: "Runs, agents, batches, reviews and decisions of this machine.",
    },
    security: [{ bearer: [] }],
    paths,
    components: {
      securitySchemes: { bearer: { type: "http", scheme: "bearer" } },
      schemas: { Error: ERROR },
    },
  };
}

const ERROR = {
  type: "object",
  required: ["ok", "error"],
  properties: {
    ok: { const: false },
    error: {
      type: "object",
      required: ["code", "message", "facts"],
      properties: { code: { type: "string" }, message: { type: "string" }, facts: { type: "object" } },
    },
  },
};

function operation({ path, summary, right, query, body, method }: Route): JsonObject {
  const names = [...path.matchAll(/:(\w+)/g)].map(([, name = ""]) => name);
  const inPath = names.map((name) => ({ name, in: "path", required: true, schema: { type: "string" } }));
  const properties = query === undefined ? {} : (z.toJSONSchema(query).properties ?? {});
  const required = new Set(query === undefined ? [] : (z.toJSONSchema(query).required ?? []));
  const inQuery = Object.entries(properties).map(([name, schema]) => ({
    ...{ name, in: "query", required: required.has(name), schema },
  }));
  const key = { name: "Idempotency-Key", in: "header", required: false, schema: { type: "string" } };
  const reply = { "application/json": { schema: { type: "object", required: ["ok"] } } };
  return {
    summary,
    "x-right": right,
    parameters: [...inPath, ...inQuery, ...(method === "POST" ? [key] : [])],
    ...(body === undefined
      ? {}
      : {
          requestBody: { required: true, content: { "application/json": { schema: z.toJSONSchema(body) } } },
        }),
    responses: {
      "200": { description: "Done.", content: reply },
      default: {
        description: "A fault.",
        content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
      },
    },
  };
}

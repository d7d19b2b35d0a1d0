/** The Gemini API, as Gemini CLI uses it: model and kind of answer are in the path. */
import { type JsonObject, isObject } from "../../lib/json.ts";
import {
  type Dialect,
  EVENT_STREAM,
  type ModelFailure,
  objectsIn,
  outputOf,
  type ModelRefusal,
  split,
  sse,
  textOf,
  textsIn,
} from "./dialect.ts";

const USAGE = { promptTokenCount: 100, candidatesTokenCount: 10, totalTokenCount: 110 };

export const gemini: Dialect = {
  api: "gemini",
  matches: (method, path) => method === "POST" && /\/models\/[^/:]+:(stream)?generateContent/i.test(path),

  read(path, body) {
    const contents = objectsIn(body["contents"]);
    const users = contents.filter((one) => one["role"] === "user");
    const lastUser = contents.findLastIndex(
      (one) => one["role"] === "user" && split(textsIn(one["parts"])).users.length > 0,
    );
    const system = body["systemInstruction"];
    return {
      api: "gemini",
      model: /\/models\/([^/:]+):/.exec(path)?.[1] ?? "",
      stream: /:streamGenerateContent/.test(path),
      ...split(users.flatMap((one) => textsIn(one["parts"]))),
      assistants: contents.filter((one) => one["role"] === "model").length,
      toolResults: results(contents).length,
      toolOutputs: results(contents.slice(lastUser + 1)).map((one) => outputOf(one["functionResponse"])),
      system: (isObject(system) ? textsIn(system["parts"]) : textsIn(system)).join("\n"),
      tools: objectsIn(body["tools"])
        .flatMap((tool) => objectsIn(tool["functionDeclarations"]))
        .map((tool) => textOf(tool["name"])),
    };
  },

  voice() {
    return {
      open: (response) => void response.writeHead(200, EVENT_STREAM),
      text: (response, text) => sse(response, candidate([{ text }], false)),
      tool: (response, command) => sse(response, candidate([call(command)], false)),
      close(response) {
        sse(response, candidate([{ text: "" }], true));
        response.end();
      },
    };
  },

  refuse,
  whole: (_seen, text) => candidate([{ text }], true),
  wholeTool: (_seen, command) => candidate([call(command)], true),
};

function results(contents: readonly JsonObject[]): readonly JsonObject[] {
  return contents
    .flatMap((one) => objectsIn(one["parts"]))
    .filter((part) => isObject(part["functionResponse"]));
}

function candidate(parts: readonly object[], isLast: boolean) {
  const content = { role: "model", parts };
  return {
    candidates: [{ content, ...(isLast ? { finishReason: "STOP" } : {}), index: 0 }],
    usageMetadata: USAGE,
  };
}

function call(command: string) {
  return { functionCall: { name: "run_shell_command", args: { command, description: "scripted" } } };
}

function refuse(failure: ModelFailure): ModelRefusal {
  const error = (code: number, status: string, message: string, details: readonly object[] = []) => ({
    status: code,
    body: { error: { code, message, status, details } },
  });
  const retry = (seconds: number) => ({
    "@type": "type.googleapis.com/google.rpc.RetryInfo",
    retryDelay: `${seconds}s`,
  });
  const quota = (quotaId: string) => ({
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    violations: [{ quotaMetric: "generativelanguage.googleapis.com/generate_requests", quotaId }],
  });
  switch (failure.kind) {
    case "rate_limit":
      return failure.resetSeconds === null
        ? error(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota).")
        : error(429, "RESOURCE_EXHAUSTED", `Quota exceeded. Please retry in ${failure.resetSeconds}s.`, [
            retry(failure.resetSeconds),
          ]);
    case "usage_limit":
      return error(429, "RESOURCE_EXHAUSTED", `Quota exceeded. Please retry in ${failure.resetSeconds}s.`, [
        quota("GenerateRequestsPerMinutePerProjectPerModel"),
        retry(failure.resetSeconds),
      ]);
    case "quota":
      return error(
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details.",
        [quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier")],
      );
    case "unauthorized":
      return error(401, "UNAUTHENTICATED", "API key not valid. Please pass a valid API key.");
    case "forbidden":
      return error(403, "PERMISSION_DENIED", "The caller does not have permission.");
    case "server_error":
      return error(500, "INTERNAL", "An internal error has occurred.");
    case "overloaded":
      return error(503, "UNAVAILABLE", "The model is overloaded. Please try again later.");
    case "context":
      return error(
        400,
        "INVALID_ARGUMENT",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
      );
  }
}

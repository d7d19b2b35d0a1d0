import { expect, test } from "vitest";
import { redactor } from "../lib/secrets.ts";
import { redactedText, unknownText } from "./redacted.ts";

const VALUE = "Zq8xW2vB7nM4kJ6hG3";
const redact = redactor([{ name: "LAB_TOKEN", value: VALUE }]);
const KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\nq83vEjRWeJC6\n-----END RSA PRIVATE KEY-----";

async function redacted(parts: readonly string[]): Promise<string> {
  async function* given() {
    yield* parts;
  }
  let text = "";
  for await (const part of redactedText(given(), redact)) text += part;
  return text;
}

const TEXTS: Readonly<Record<string, [given: string, then: string]>> = {
  "a known value": [`it is ${VALUE}.\nbye\n`, "it is [redacted:LAB_TOKEN].\nbye\n"],
  "a private key": [`before\n${KEY}\nafter\n`, "before\n[redacted]\nafter\n"],
  "a value on the line after its name": [
    "password:\n  hunter2hunter2\nok\n",
    "password:\n  [redacted]\nok\n",
  ],
  "an option and its value on two lines": ["--api-key\nhunter2hunter2\nok\n", "--api-key\n[redacted]\nok\n"],
  "no secret at all": ["one\n\n\ntwo", "one\n\n\ntwo"],
};

test.each(Object.entries(TEXTS))(
  "redaction of %s does not depend on where the text is cut",
  async (_name, [given, then]) => {
    for (let at = 0; at <= given.length; at += 1)
      expect(await redacted([given.slice(0, at), given.slice(at)])).toBe(then);
    expect(await redacted(Array.from(given))).toBe(then);
  },
);

test("an endless line is passed on, and memory stays bounded", async () => {
  const parts = Array.from({ length: 100 }, () => "x".repeat(64 * 1024));
  expect((await redacted(parts)).length).toBe(100 * 64 * 1024);
});

test("an unknown secret is named together with the way out", () => {
  expect(unknownText(["A_KEY"])).toMatch(
    /^A_KEY, which is not set here.* Set it to what it was, or to nothing/,
  );
  expect(unknownText(["A_KEY", "B_KEY"])).toMatch(/^A_KEY, B_KEY, which are .* Set them to what they were/);
});

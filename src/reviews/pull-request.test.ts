import { describe, expect, test } from "vitest";
import { Fault } from "../core/faults.ts";
import { cpuMs } from "../../test/cpu.ts";
import { accessTo, namedHosts, parseRemote, sameRepository } from "../github/github.ts";
import { type ParseContext, parsePullRequest, subjectOf, titleOf } from "./pull-request.ts";

const SHOP = { host: "github.com", owner: "acme", repository: "shop" };
const AROUND: ParseContext = { hosts: [], remotes: [] };
const CLONE: ParseContext = {
  hosts: [],
  remotes: [
    { name: "origin", ...SHOP, owner: "me" },
    { name: "upstream", ...SHOP },
  ],
};
const ENTERPRISE: ParseContext = {
  hosts: [],
  remotes: [{ name: "origin", ...SHOP, host: "git.example.com" }],
};

function faultOf(work: () => unknown): Fault {
  try {
    work();
  } catch (error) {
    if (error instanceof Fault) return error;
  }
  throw new Error("no fault");
}

describe("parsePullRequest", () => {
  test.each([
    ["https://github.com/acme/shop/pull/42", AROUND, { ...SHOP, number: 42 }],
    ["  https://github.com/acme/shop/pull/42/files?w=1#r5 ", AROUND, { ...SHOP, number: 42 }],
    ["http://www.GitHub.com/acme/shop/pull/42/", AROUND, { ...SHOP, number: 42 }],
    ["https://user:secret@github.com/acme/shop/pull/42", AROUND, { ...SHOP, number: 42 }],
    ["https://github.com/acme/shop.git/pull/42", AROUND, { ...SHOP, number: 42 }],
    ["github.com/acme/shop/pull/42", AROUND, { ...SHOP, number: 42 }],
    ["acme/shop#42", AROUND, { ...SHOP, number: 42 }],
    ["acme/.github#1", AROUND, { ...SHOP, repository: ".github", number: 1 }],
    ["github.com/acme/shop#42", AROUND, { ...SHOP, number: 42 }],
    ["42", CLONE, { ...SHOP, number: 42 }],
    ["#42", CLONE, { ...SHOP, number: 42 }],
    ["42", ENTERPRISE, { ...SHOP, host: "git.example.com", number: 42 }],
    ["git.example.com/acme/shop#42", ENTERPRISE, { ...SHOP, host: "git.example.com", number: 42 }],
    [
      "https://git.example.com/acme/shop/pull/7",
      { hosts: ["Git.example.com"], remotes: [] },
      { ...SHOP, host: "git.example.com", number: 7 },
    ],
    [
      "https://localhost:3000/acme/shop/pull/7",
      { hosts: ["localhost:3000"], remotes: [] },
      { ...SHOP, host: "localhost:3000", number: 7 },
    ],
  ] as const)("%s", (text, around, then) => {
    expect(parsePullRequest(text, around)).toEqual(then);
  });

  test.each([
    ["https://gitlab.com/acme/shop/pull/42", AROUND, "gitlab.com is not a GitHub server"],
    ["https://github.com.evil.example/acme/shop/pull/42", AROUND, "set GH_HOST=github.com.evil.example"],
    ["https://github.com@evil.example/acme/shop/pull/42", AROUND, "evil.example is not"],
    ["https://gıthub.com/acme/shop/pull/42", AROUND, "is not a GitHub server"],
    ["evil.example/acme/shop#42", AROUND, "is not a GitHub server"],
    ["42", AROUND, "is not a clone with a GitHub remote"],
    ["0", CLONE, "between 1 and"],
    ["-1", CLONE, "between 1 and"],
    ["99999999999", CLONE, "between 1 and"],
    ["acme/shop#0", AROUND, "between 1 and"],
    ["https://github.com/acme/shop/pull/2147483648", AROUND, "between 1 and"],
    ["https://github.com/acme/../shop/pull/42", AROUND, "is not a pull request"],
    ["https://github.com/acme/%2e%2e/other/pull/42", AROUND, "is not a pull request"],
    ["acme/..#42", AROUND, "is not a pull request"],
    ["../shop#42", AROUND, "is not a pull request"],
    ["https://github.com/acme/shop/issues/42", AROUND, "is not a pull request"],
    ["https://github.com/acme/shop/pull/", AROUND, "is not a pull request"],
    ["https://github.com/acme/shop/pull/4x", AROUND, "is not a pull request"],
    ["https://github.com/ac%00me/shop/pull/4", AROUND, "is not a pull request"],
    ["ftp://github.com/acme/shop/pull/4", AROUND, "is not a pull request"],
    ["--help", AROUND, "is not a pull request"],
    ["", AROUND, "is not a pull request"],
    ["$(touch x)", AROUND, "is not a pull request"],
    ["\u001b]52;c;aGk=\u0007/a#1", AROUND, "is not a pull request"],
    ["1e3", CLONE, "is not a pull request"],
    ["a".repeat(3_000), AROUND, "is not a pull request"],
  ] as const)("refuses %j", (text, around, message) => {
    const fault = faultOf(() => parsePullRequest(text, around));
    expect(fault.code).toBe("usage");
    expect(fault.message).toContain(message);
    expect(fault.message).not.toMatch(/[\u001b\u0007]/);
  });

  test("does not repeat a password of a refused URL", () => {
    const fault = faultOf(() => parsePullRequest("https://me:hunter2hunter2@github.com/acme", AROUND));
    expect(JSON.stringify([fault.message, fault.facts])).not.toContain("hunter2");
  });

  test("yields a subject and a title", () => {
    const other = { ...SHOP, host: "git.example.com", number: 7 };
    expect([subjectOf(other), titleOf(other), titleOf({ ...SHOP, number: 7 })]).toEqual([
      "pr:acme/shop#7",
      "git.example.com/acme/shop#7",
      "acme/shop#7",
    ]);
  });
});

describe("parseRemote", () => {
  test.each([
    ["https://github.com/acme/shop.git", SHOP],
    ["https://github.com/acme/shop", SHOP],
    ["https://x-access-token:ghp_secret@github.com/acme/shop.git/", SHOP],
    ["git@github.com:acme/shop.git", SHOP],
    ["github.com:acme/shop", SHOP],
    ["ssh://git@github.com:22/acme/shop.git", SHOP],
    ["ssh://git@ssh.github.com:443/acme/shop.git", SHOP],
    ["git://github.com/acme/shop.git", SHOP],
    ["ssh://git@git.example.com:2222/acme/shop", { ...SHOP, host: "git.example.com" }],
    ["https://git.example.com:8443/acme/shop", { ...SHOP, host: "git.example.com:8443" }],
    ["/srv/git/shop.git", null],
    ["../shop", null],
    ["file:///srv/shop.git", null],
    ["https://gitlab.example/group/sub/shop.git", null],
    ["https://github.com/acme/../shop", null],
    ["ext::sh -c touch%20x", null],
    ["", null],
  ])("%s", (url, then) => {
    expect(parseRemote(url)).toEqual(then);
  });

  test("compares names whatever their case", () => {
    expect(sameRepository(SHOP, { ...SHOP, owner: "ACME", repository: "Shop" })).toBe(true);
    expect(sameRepository(SHOP, { ...SHOP, host: "git.example.com" })).toBe(false);
  });
});

describe("accessTo", () => {
  const none = { apiUrl: null, token: null };
  const anonymous = { token: null, tokenFrom: null, warnings: [] };
  test.each([
    ["github.com", none, {}, { baseUrl: "https://api.github.com", ...anonymous }],
    ["acme.ghe.com", none, {}, { baseUrl: "https://api.acme.ghe.com", ...anonymous }],
    ["git.example.com", none, {}, { baseUrl: "https://git.example.com/api/v3", ...anonymous }],
    [
      "github.com",
      none,
      { GITHUB_TOKEN: "one\n", GH_TOKEN: "two" },
      { baseUrl: "https://api.github.com", token: "one", tokenFrom: "GITHUB_TOKEN", warnings: [] },
    ],
    [
      "github.com",
      none,
      { GITHUB_TOKEN: "", GH_TOKEN: "two", GH_ENTERPRISE_TOKEN: "three" },
      { baseUrl: "https://api.github.com", token: "two", tokenFrom: "GH_TOKEN", warnings: [] },
    ],
    [
      "github.com",
      { apiUrl: "http://127.0.0.1:9/", token: "mine" },
      { GITHUB_TOKEN: "one" },
      { baseUrl: "http://127.0.0.1:9", token: "mine", tokenFrom: "--token", warnings: [] },
    ],
    [
      "git.example.com",
      none,
      { GH_HOST: "git.example.com", GH_ENTERPRISE_TOKEN: "three", GITHUB_TOKEN: "one" },
      {
        baseUrl: "https://git.example.com/api/v3",
        token: "three",
        tokenFrom: "GH_ENTERPRISE_TOKEN",
        warnings: [],
      },
    ],
    [
      "git.example.com",
      none,
      { GITHUB_TOKEN: "one" },
      {
        baseUrl: "https://git.example.com/api/v3",
        ...anonymous,
        warnings: [expect.stringContaining("GITHUB_TOKEN was not sent to git.example.com")],
      },
    ],
  ])("%s %j %j", (host, options, env, then) => {
    expect(accessTo(host, options, env)).toEqual(then);
  });

  test.each([
    ["ftp://x", null],
    ["nonsense", null],
    ["https://u:p@h/api/v3", null],
    ["http://example.com/api/v3", "tok"],
    [null, "to ken"],
    [null, "tok\nen"],
  ])("refuses %j with %j", (apiUrl, token) => {
    const fault = faultOf(() => accessTo("github.com", { apiUrl, token }, {}));
    expect(fault.code).toBe("usage");
    expect(fault.message).not.toContain("tok\nen");
  });

  test("allows hosts that the user named", () => {
    const env = { GH_HOST: "Git.example.com" };
    expect(namedHosts({ apiUrl: "https://api.acme.ghe.com" }, env)).toEqual([
      "git.example.com",
      "acme.ghe.com",
    ]);
  });
});

test("hostile texts take little time", () => {
  const texts = ["a.".repeat(500_000), "/".repeat(1_000_000), "a/".repeat(500_000), "@".repeat(1_000_000)];
  for (const text of texts) {
    expect(cpuMs(() => parseRemote(text))).toBeLessThan(50);
    expect(cpuMs(() => faultOf(() => parsePullRequest(text, AROUND)))).toBeLessThan(50);
  }
});

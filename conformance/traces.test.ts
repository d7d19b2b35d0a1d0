import { expect, test } from "vitest";
import { outermost } from "./isolate.ts";
import { noRoutesIn, remotesIn, type Surroundings, traces } from "./traces.ts";

const before: Surroundings = { files: new Map([["/home/u/.codex/a", 1]]), checkout: " M x\n", noRoutes: 0 };

const cases: Record<string, [after: Partial<Surroundings>, found: readonly string[]]> = {
  "nothing happened": [{}, []],
  "a new file": [
    {
      files: new Map([
        ["/home/u/.codex/a", 1],
        ["/tmp/b", 2],
      ]),
    },
    ["a file was left outside the folder of the suite: /tmp/b"],
  ],
  "a changed file": [
    { files: new Map([["/home/u/.codex/a", 2]]) },
    ["a file was left outside the folder of the suite: /home/u/.codex/a"],
  ],
  "the empty folder of Codex": [
    {
      files: new Map([
        ["/home/u/.codex/a", 1],
        ["/tmp/codex-daemon-0", 0],
      ]),
    },
    [],
  ],
  "something in that folder": [
    {
      files: new Map([
        ["/home/u/.codex/a", 1],
        ["/tmp/codex-daemon-0/socket", 2],
      ]),
    },
    ["a file was left outside the folder of the suite: /tmp/codex-daemon-0/socket"],
  ],
  "a changed checkout": [{ checkout: " M x\n?? y\n" }, ["the checkout was changed:  M x\n?? y\n"]],
  "refused connections leave no traces": [{ noRoutes: 7 }, []],
};

test.each(Object.entries(cases))("%s", (_name, [after, found]) => {
  expect(traces(before, { ...before, ...after })).toEqual(found);
});

test("the kernel counts connections without a route for both versions of IP", () => {
  const snmp = "Ip: Forwarding OutRequests OutNoRoutes\nIp: 2 9 3\nTcp: A\nTcp: 1\n";
  expect(noRoutesIn(snmp, "Ip6InNoRoutes 5\nIp6OutNoRoutes \t 4\n")).toBe(7);
});

test("a trace distinguishes connections to another machine from loopback and from other processes", () => {
  const row = (remote: string, inode: string) =>
    `   0: 0100007F:9C40 ${remote} 01 00000000:00000000 00:00000000 00000000     0        0 ${inode} 1`;
  const table = [
    "  sl  local_address rem_address   st",
    row("0100007F:01BB", "1"),
    row("00000000:0000", "2"),
    row("08080808:0035", "3"),
    row("08080808:0035", "99"),
    row("0000000000000000FFFF00000100007F:01BB", "4"),
    row("00000000000000000000000001000000:01BB", "5"),
    row("0000000000000000FFFF000008080808:01BB", "6"),
  ].join("\n");
  expect(remotesIn(table, new Set(["1", "2", "3", "4", "5", "6"]))).toEqual([
    "08080808:0035",
    "0000000000000000FFFF000008080808:01BB",
  ]);
});

test("nested folders are put back together with the outer folder", () => {
  expect(outermost(["/tmp/a/b", "/tmp/a", "/tmp/ab", "/tmp/a"])).toEqual(["/tmp/a", "/tmp/ab"]);
});

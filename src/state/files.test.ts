import { execFile, execFileSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Fault } from "../core/faults.ts";
import { readOwnText, readRecord, writeAtomic } from "./files.ts";

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "reprise-files-"));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** The fault's code and object; any other error unchanged. */
function faultOf(act: () => unknown): unknown {
  try {
    return { returned: act() };
  } catch (error) {
    return error instanceof Fault ? error.code : error;
  }
}

describe("readRecord", () => {
  const cases: Record<string, [content: string | Buffer, then: unknown]> = {
    "a record": ['{"a":1,"b":{"a":2}}', { returned: { a: 1, b: { a: 2 } } }],
    "empty file": ["", "record_damaged"],
    garbage: ["not json", "record_damaged"],
    "two documents": ['{"a":1}{"a":1}', "record_damaged"],
    "no object": ["[1]", "record_damaged"],
    null: ["null", "record_damaged"],
    "a key twice": ['{"session":1,"x":2,"session":3}', "record_damaged"],
    "a key twice, escaped": ['{"session":1,"s\\u0065ssion":3}', "record_damaged"],
    "zero bytes after a power cut": [Buffer.alloc(100), "record_damaged"],
    "broken UTF-8": [Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), "record_damaged"],
    "endless nesting": ["[".repeat(500_000), "record_damaged"],
    "too large": [`{"a":"${"x".repeat(1024 * 1024)}"}`, "record_damaged"],
  };
  test.each(Object.entries(cases))("%s", (_name, [content, then]) => {
    const path = join(dir, "record.json");
    writeFileSync(path, content);
    expect(faultOf(() => readRecord(path))).toEqual(then);
    expect(readFileSync(path)).toEqual(Buffer.from(content));
  });

  test("a missing file is null", () => {
    expect(readRecord(join(dir, "nothing.json"))).toBeNull();
    expect(readRecord(join(dir, "record.json", "below-a-file"))).toBeNull();
  });

  test("a file that is irregular or not ours is refused without waiting", () => {
    execFileSync("env", ["mkfifo", join(dir, "pipe.json")]);
    mkdirSync(join(dir, "directory.json"));
    writeFileSync(join(dir, "target"), "{}");
    symlinkSync(join(dir, "target"), join(dir, "link.json"));
    expect(faultOf(() => readRecord(join(dir, "pipe.json")))).toBe("record_damaged");
    expect(faultOf(() => readRecord(join(dir, "directory.json")))).toBe("record_damaged");
    expect(faultOf(() => readRecord(join(dir, "link.json")))).toBe("denied");
    expect(faultOf(() => readRecord("/dev/zero"))).toBe("record_damaged");
    for (const name of ["pipe.json", "directory.json", "link.json", "nothing.json"])
      expect(readOwnText(join(dir, name), 1_000)).toBeNull();
  });

  test("a file cut off at any byte is either damaged or complete", () => {
    const path = join(dir, "cut.json");
    const whole = Buffer.from(
      `${JSON.stringify({ v: 1, text: "ü😀\n", list: [1, { a: null }] }, null, 2)}\n`,
    );
    const good = { returned: { v: 1, text: "ü😀\n", list: [1, { a: null }] } };
    for (let length = 0; length <= whole.length; length += 1) {
      writeFileSync(path, whole.subarray(0, length));
      const then = faultOf(() => readRecord(path));
      expect([length, then]).toEqual([length, length >= whole.length - 1 ? good : "record_damaged"]);
    }
  });
});

describe("writeAtomic", () => {
  test("files are readable by the owner alone under any umask", () => {
    const before = process.umask(0);
    try {
      writeAtomic(join(dir, "private.json"), "{}");
    } finally {
      process.umask(before);
    }
    expect(statSync(join(dir, "private.json")).mode & 0o777).toBe(0o600);
  });

  test("replaces a link instead of writing through it", () => {
    writeFileSync(join(dir, "victim"), "mine");
    symlinkSync(join(dir, "victim"), join(dir, "trap"));
    writeAtomic(join(dir, "trap"), "new");
    expect([readFileSync(join(dir, "victim"), "utf8"), readFileSync(join(dir, "trap"), "utf8")]).toEqual([
      "mine",
      "new",
    ]);
  });

  test("a refusal names path and errno and leaves no file behind", () => {
    mkdirSync(join(dir, "taken", "x"), { recursive: true });
    for (const [path, errno] of [
      [join(dir, "no", "such", "place"), "ENOENT"],
      [join(dir, "taken"), "EISDIR"],
    ] as const) {
      let fault: unknown;
      try {
        writeAtomic(path, "x");
      } catch (error) {
        fault = error;
      }
      expect(fault).toBeInstanceOf(Fault);
      expect(fault).toMatchObject({ code: "storage_failed", facts: { path, errno } });
    }
    expect(readdirSync(dir).filter((name) => name.startsWith(".tmp-"))).toEqual([]);
  });

  test("readers see a whole record while 8 processes write it", async () => {
    const path = join(dir, "shared.json");
    const program = join(dir, "writer.ts");
    const module = new URL("./files.ts", import.meta.url).pathname;
    writeFileSync(
      program,
      `import { writeAtomic } from ${JSON.stringify(module)};
       const [path = "", who = ""] = process.argv.slice(2);
       for (let i = 0; i < 100; i += 1) writeAtomic(path, JSON.stringify({ who, i, fill: who.repeat(5000), end: who }));`,
    );
    const run = promisify(execFile);
    let writing = true;
    const writers = Promise.all(
      Array.from("abcdefgh", (who) => run(process.execPath, ["--import", "tsx", program, path, who])),
    ).finally(() => {
      writing = false;
    });
    let reads = 0;
    while (writing) {
      const record = readRecord(path);
      if (record !== null) {
        expect(record["fill"]).toBe(String(record["who"]).repeat(5000));
        expect(record["end"]).toBe(record["who"]);
        reads += 1;
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    await writers;
    expect(reads).toBeGreaterThan(100);
    expect(readRecord(path)).toMatchObject({ i: 99 });
  }, 60_000);
});

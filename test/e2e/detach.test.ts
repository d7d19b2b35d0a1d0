/** `start --detach`, `resume --detach` and the holder: it outlives everybody but its agent, and leaves nothing behind. */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HolderBox, isAlive } from "./holder-box.ts";
import { collect, until } from "./sandbox.ts";

let box: HolderBox;
beforeAll(() => {
  box = new HolderBox();
});
afterAll(() => box[Symbol.dispose]());

describe("a run without a terminal", () => {
  test("is started, listed and shown, and cannot be removed", async () => {
    const started = await box.json(["start", "demo", "remember 4711 @@wait:60000", "--detach"]);
    expect(started).toEqual({
      ok: true,
      handle: expect.stringMatching(/^[0-9a-f]{8}$/),
      runId: expect.stringMatching(/-demo-[0-9a-f]{8}$/),
      attempt: 1,
      parent: null,
      detached: true,
      warnings: [],
    });
    const handle = started["handle"] as string;
    const pid = box.pid(handle);
    expect(await box.json(["show", handle])).toMatchObject({ status: "running", live: { pid } });
    expect((await box.run(["list"])).stdout).toMatch(new RegExp(`${handle}\\s+demo\\s+running`));
    expect((await box.run(["rm", handle])).code).toBe(4);
    expect((await box.run(["resume", handle, "x"])).code).toBe(4);
    expect((await box.run(["stop", handle])).code).toBe(0);
    await until("the holder is gone", () => !isAlive(pid));
  });

  test("is followed, attached to, and ends by itself", async () => {
    const handle = await box.detach("demo", "remember 4711 @@tool:grep @@wait:6000");
    const pid = box.pid(handle);
    const follow = box.run(["logs", handle, "--follow", "--raw"]);
    const attached = await box.run(["attach", handle]);
    expect(attached.code).toBe(0);
    expect(attached.stdout).toContain("⚙ grep");
    expect(attached.stdout).toContain('You said "remember 4711"');
    expect(attached.stderr).toContain(`${handle} has ended: completed`);
    expect((await follow).stdout).toBe(box.tape(handle).toString());
    await box.ended(handle);
    expect(readdirSync(box.runtime)).toEqual(["holders.log"]);
    expect(await box.json(["show", handle])).toMatchObject({ status: "completed", live: null });
    await until("the holder is gone", () => !isAlive(pid));
    const resumed = await box.json(["resume", handle, "what was it"]);
    expect(resumed["text"]).toContain("4711");
  });

  test("has a separate session, no terminal, no request in its arguments, and none of our descriptors", async () => {
    const handle = await box.detach("demo", "topsecret @@wait:20000", "--env", "API_TOKEN=hush-hush-1");
    const pid = box.pid(handle);
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const [, parent, , session, terminal] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    expect([Number(session), Number(terminal)]).toEqual([pid, 0]);
    expect(Number(parent)).not.toBe(process.pid);
    expect(readFileSync(`/proc/${pid}/cmdline`, "utf8")).not.toMatch(/topsecret|hush/);
    for (const file of readdirSync(box.runtime)) {
      const path = join(box.runtime, file);
      expect([file, statSync(path).mode & 0o077]).toEqual([file, 0]);
      if (statSync(path).isFile()) expect(readFileSync(path, "utf8")).not.toMatch(/topsecret|hush/);
    }
    expect(statSync(box.runtime).mode & 0o777).toBe(0o700);
    await until("the agent", () => box.agent() > 0);
    expect((await box.run(["stop", handle])).code).toBe(0);
    expect(await box.json(["show", handle])).toMatchObject({ status: "cancelled" });
  });

  test("passes NODE_OPTIONS to the agent and not to the holder, and an outer agent's marker to neither", async () => {
    const env = { NODE_OPTIONS: "--max-http-header-size=20000", REPRISE_ATTEMPT: "outer/1" };
    const message = "hello @@env:NODE_OPTIONS @@env:REPRISE_ATTEMPT @@wait:4000";
    const { stdout } = await box.run(["start", "demo", message, "--detach"], { env });
    const handle = stdout.trim();
    const environ = readFileSync(`/proc/${box.pid(handle)}/environ`, "utf8");
    expect(environ).not.toMatch(/NODE_OPTIONS|REPRISE_ATTEMPT/);
    const attached = await box.run(["attach", handle]);
    expect(attached.stdout).toContain("NODE_OPTIONS=--max-http-header-size=20000");
    expect(attached.stdout).toMatch(new RegExp(`REPRISE_ATTEMPT=\\S+${handle}/1`));
  });

  test.each([
    ["an unknown engine", ["nonesuch", "x"], 2, "engine_unknown"],
    ["no such directory", ["demo", "x", "--cwd", "/nonexistent"], 2, "cwd_invalid"],
    ["an engine that is not there", ["aider", "x"], 2, "engine_unknown"],
  ])("reports %s at once", async (_name, args, code, fault) => {
    const result = await box.run(["start", "--json", ...args, "--detach"]);
    expect(result.code).toBe(code);
    expect(JSON.parse(result.stdout)).toMatchObject({ ok: false, error: { code: fault } });
  });

  test("whose program cannot be started is reported by the holder, and the attempt is recorded", async () => {
    const file = box.program("codex", "");
    writeFileSync(file, "#!/nonexistent/interpreter\n");
    const result = await box.run(["start", "codex", "x", "--detach", "--json"]);
    expect(result.code).toBe(6);
    const { error } = JSON.parse(result.stdout);
    expect(error).toMatchObject({ code: "engine_missing" });
    expect(await box.json(["show", error.facts.handle])).toMatchObject({ status: "failed" });
    expect(readdirSync(box.runtime)).toEqual(["holders.log"]);
  });

  test("gives attach the exit code of start", async () => {
    const limited = await box.detach("demo", "hello @@429:reset=2030-01-01T00:00:00Z");
    await box.ended(limited);
    const result = await box.run(["attach", limited]);
    expect([result.code, result.stderr]).toEqual([75, expect.stringContaining("has ended: failed")]);
    expect((await box.run(["attach", "ffffffff"])).code).toBe(3);
    expect((await box.run(["attach"])).code).toBe(2);
  });

  test("can be attached to, unlike a run in a foreground terminal", async () => {
    const known = new Set(box.runDirectories());
    const child = box.spawn(["start", "demo", "hello @@wait:20000"]);
    child.stdin?.end();
    const done = collect(child);
    const directory = await until("the run", () => box.runDirectories().find((one) => !known.has(one)));
    const handle = directory.slice(-8);
    await until("it lives", () => existsSync(join(directory, "attempts/1/meta.json")));
    const result = await box.run(["attach", handle]);
    expect(result.code).toBe(4);
    expect(result.stderr).toMatch(/runs in another terminal \(pid \d+\)/);
    child.kill("SIGKILL");
    await done;
  });

  test("continues the conversation with resume --detach", async () => {
    const first = await box.json(["start", "demo", "remember 4711"]);
    const result = await box.run(["resume", "--detach", first["handle"], "what was it @@wait:4000"]);
    expect([result.code, result.stdout.trim()]).toEqual([0, first["handle"]]);
    const attached = await box.run(["attach", first["handle"]]);
    expect(attached.stdout).toContain("4711");
    expect(await box.json(["show", first["handle"]])).toMatchObject({ status: "completed", attempts: 2 });
  });
});

describe("deaths", () => {
  test("kill -9 of the launcher at any moment of the launch leaves at most one agent, and loses nothing", async () => {
    const began = performance.now();
    await box.ended(await box.detach("demo", "hello"));
    const whole = performance.now() - began;
    const moments = Number(process.env["REPRISE_TEST_MOMENTS"] ?? 12);
    for (let n = 0; n < moments; n += 1) {
      const before = box.journalEntries().length;
      const known = new Set(box.runDirectories());
      const child = box.spawn(["start", "demo", `remember ${n} @@wait:50`, "--detach"]);
      child.stdin?.end();
      const done = collect(child);
      await wait((n * whole) / moments);
      child.kill("SIGKILL");
      await done;
      const fresh = () => box.runDirectories().filter((one) => !known.has(one));
      // A holder that has its order continues; without an order it ends without a trace.
      await until("nothing goes on", () => holders().length === 0);
      const starts = box
        .journalEntries()
        .slice(before)
        .filter(({ event }) => event === "start");
      expect(starts.length).toBe(fresh().length);
      expect(starts.length).toBeLessThanOrEqual(1);
      for (const directory of fresh())
        expect(await box.json(["show", directory.slice(-8)])).toMatchObject({ status: "completed" });
    }
  }, 120_000);

  test("kill -9 of the holder ends the agent and its socket, and the interrupted run resumes", async () => {
    const handle = await box.detach("demo", "remember 4711 @@hang");
    await until("it hangs", () => box.journalEntries().some(({ event }) => event === "hang"));
    const [agent, pid] = [box.agent(), box.pid(handle)];
    const watching = box.run(["attach", handle]);
    process.kill(pid, "SIGKILL");
    await until("the agent is gone", () => !isAlive(agent));
    expect((await watching).stderr).toContain("has ended: interrupted");
    expect((await box.run(["attach", handle])).code).toBe(1);
    expect(existsSync(join(box.runtime, `h-${handle}.sock`))).toBe(false);
    const resumed = await box.run(["resume", handle, "what was it @@wait:4000", "--detach"]);
    expect(resumed).toMatchObject({ code: 0, stdout: `${handle}\n` });
    expect((await box.run(["attach", handle])).stdout).toContain("4711");
  });

  test("a holder ignores SIGHUP and SIGPIPE; SIGTERM ends its agent properly", async () => {
    const handle = await box.detach("demo", "remember 4711 @@hang");
    await until("it hangs", () => box.journalEntries().filter(({ event }) => event === "hang").length > 1);
    const [agent, pid] = [box.agent(), box.pid(handle)];
    process.kill(pid, "SIGHUP");
    process.kill(pid, "SIGPIPE");
    expect(await box.json(["show", handle])).toMatchObject({ status: "running", live: { pid } });
    process.kill(pid, "SIGTERM");
    await box.ended(handle);
    await until("the agent is gone", () => !isAlive(agent));
    const record = await box.json(["show", handle]);
    expect(record).toMatchObject({ status: "interrupted" });
    expect(record["history"][0].outcome.reason).toBe("Reprise was ended by SIGTERM");
  });

  test("stop ends an obedient agent once, and a stubborn one as well", async () => {
    const handle = await box.detach("demo", "hello @@hang");
    const stopped = await box.json(["stop", handle]);
    expect(stopped).toMatchObject({ ok: true, status: "cancelled", how: "asked" });
    expect(box.holder(handle)).toBe(null);
  });

  function holders(): string[] {
    return readdirSync("/proc").filter((name) => {
      if (!/^\d+$/.test(name)) return false;
      try {
        const line = readFileSync(`/proc/${name}/cmdline`, "utf8");
        return (
          line.includes("dist/holder.js") && readFileSync(`/proc/${name}/environ`, "utf8").includes(box.root)
        );
      } catch {
        return false;
      }
    });
  }
});

describe("the socket", () => {
  test("a path that is too long is refused with its length, before anything is started", async () => {
    const state = join(box.root, "s".repeat(100));
    const env = { REPRISE_HOME: state };
    const result = await box.run(["start", "demo", "hello", "--detach"], { env });
    expect(result.code).toBe(2);
    expect(result.stderr).toMatch(/would have \d{3} bytes.*Set REPRISE_HOME to a shorter path/);
    expect(readdirSync(join(state, "runs"))).toEqual([]);
    const runtime = join(box.root, "xdg");
    mkdirSync(runtime, { mode: 0o700 });
    const started = await box.run(["start", "demo", "hello @@wait:4000", "--detach"], {
      env: { ...env, XDG_RUNTIME_DIR: runtime },
    });
    expect(started.code).toBe(0);
    const attached = await box.run(["attach", started.stdout.trim()], {
      env: { ...env, XDG_RUNTIME_DIR: runtime },
    });
    expect(attached.stdout).toContain('You said "hello"');
  });

  test("a wrong token is refused, and the agent does not notice", async () => {
    const handle = await box.detach("demo", "hello @@wait:4000");
    const file = join(box.runtime, `h-${handle}.json`);
    const text = readFileSync(file, "utf8");
    writeFileSync(file, text.replace(/"token":"../, '"token":"zz'));
    const refused = await box.run(["attach", handle]);
    expect([refused.code, refused.stderr]).toEqual([8, expect.stringContaining("refused our token")]);
    writeFileSync(file, text);
    expect((await box.run(["attach", handle])).code).toBe(0);
  });

  test("a damaged record is reported, and stop still works", async () => {
    const handle = await box.detach("demo", "hello @@hang");
    writeFileSync(join(box.runtime, `h-${handle}.json`), "{");
    expect((await box.run(["attach", handle])).code).toBe(5);
    expect((await box.run(["stop", handle])).code).toBe(0);
  });
});

test("a killed holder's leftovers disappear when its run is shown", async () => {
  const handle = await box.detach("demo", "hello @@hang");
  const pid = box.pid(handle);
  const half = join(box.runDirectory(handle), "attempts/1", `.tmp-${pid}-0123456789ab`);
  writeFileSync(half, "{");
  process.kill(pid, "SIGKILL");
  await until("the holder is gone", () => !isAlive(pid));
  expect((await box.run(["list"])).stdout).toMatch(new RegExp(`${handle}\\s+demo\\s+interrupted`));
  expect([existsSync(half), readdirSync(box.runtime).filter((name) => name.includes(handle))]).toEqual([
    false,
    [],
  ]);
});

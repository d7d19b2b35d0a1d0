/** A full disk, a read-only one, somebody else's directory: said by path, nothing lost, and it goes on afterwards. */
import { spawnSync } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CLI, Sandbox } from "./sandbox.ts";

const ROOT = process.getuid?.() === 0;
/** Mounts need a separate namespace; for an ordinary user together with a user namespace. */
const NAMESPACE = ROOT ? ["-m"] : ["-rm"];
const CAN_MOUNT = spawnSync("unshare", [...NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).status === 0;

let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
  box.program("reprise", `exec '${process.execPath}' '${CLI}' "$@"`);
});
afterAll(() => box[Symbol.dispose]());

interface Said {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a shell script in a mount namespace. `say NAME command…` keeps what a command said under a name. */
function inNamespace(script: string, env: Record<string, string>): Record<string, Said> {
  const logs = join(box.root, `logs-${Math.random()}`);
  mkdirSync(logs);
  const say =
    'say() { name=$1; shift; code=0; "$@" >"$LOGS/$name.out" 2>"$LOGS/$name.err" || code=$?; echo "$name $code" >>"$LOGS/codes"; }';
  const result = spawnSync(
    "unshare",
    [...NAMESPACE, "sh", "-c", `set -e\n${say}\n${script}\ncat "$LOGS/codes"`],
    {
      cwd: box.cwd,
      env: box.env({ ...env, LOGS: logs }),
      encoding: "utf8",
    },
  );
  if (result.status !== 0) throw new Error(`the script failed: ${result.stderr}`);
  const read = (name: string) => spawnSync("cat", [join(logs, name)], { encoding: "utf8" }).stdout;
  return Object.fromEntries(
    result.stdout
      .trim()
      .split("\n")
      .map((line) => {
        const [name = "", code] = line.split(" ");
        return [name, { code: Number(code), stdout: read(`${name}.out`), stderr: read(`${name}.err`) }];
      }),
  );
}

describe.skipIf(!CAN_MOUNT)("a full disk (skipped where no mount namespace is allowed)", () => {
  test("during capture causes exit 7 with the path, keeps captured output, and the run resumes when there is room", () => {
    const small = join(box.root, "small");
    mkdirSync(small);
    const said = inNamespace(
      `mount -t tmpfs -o size=8m tmpfs "$SMALL"
       say start reprise start demo 'remember 4711 @@flood:30000000'
       say handle reprise list --handles
       HANDLE=$(cat "$LOGS/handle.out")
       say list reprise list
       say show reprise show "$HANDLE" --json
       say tape sh -c 'cat "$REPRISE_HOME"/runs/*/attempts/1/stdout.log | wc -c'
       say head sh -c 'head -c 4096 "$REPRISE_HOME"/runs/*/attempts/1/stdout.log'
       mount -o remount,size=64m "$SMALL"
       say resume reprise resume "$HANDLE" 'what do you remember?'
       say doctor reprise doctor --json`,
      { SMALL: small, REPRISE_HOME: join(small, "state"), REPRISE_DEMO_HOME: join(box.root, "demo-home") },
    );
    const { start, handle, list, show, tape, head, resume, doctor } = said;
    expect(start?.code).toBe(7);
    expect(start?.stderr).toMatch(new RegExp(`disk is full.*${small}/state/runs/\\S+\\.log`));
    expect(start?.stderr).toContain(`reprise resume ${handle?.stdout.trim()}`);
    expect(start?.stderr).not.toMatch(/\n\s+at |this is a bug/);
    expect(list?.stdout).toMatch(/demo\s+interrupted/);
    const record = JSON.parse(show?.stdout ?? "");
    expect(record).toMatchObject({
      status: "interrupted",
      session: { value: expect.stringMatching(/^[0-9a-f-]{36}$/) },
    });
    expect(Number(tape?.stdout)).toBeGreaterThan(2_000_000);
    expect(record.history[0].bytes.stdout).toBe(Number(tape?.stdout));
    expect(start?.stdout.startsWith(head?.stdout ?? "-")).toBe(true);
    expect(resume).toMatchObject({ code: 0, stdout: expect.stringContaining("4711") });
    expect(JSON.parse(doctor?.stdout ?? "")).toMatchObject({ index: { damaged: 0 } });
  });

  test("before the start causes exit 7 and starts nothing, and existing runs can be shown", () => {
    const small = join(box.root, "small-2");
    mkdirSync(small);
    const said = inNamespace(
      `mount -t tmpfs -o size=8m tmpfs "$SMALL"
       say first reprise start demo 'remember 4711'
       HANDLE=$(reprise list --handles)
       dd if=/dev/zero of="$SMALL/filler" bs=64k 2>/dev/null || true
       dd if=/dev/zero of="$SMALL/filler-2" bs=512 2>/dev/null || true
       say start reprise start demo 'hello'
       say resume reprise resume "$HANDLE" 'hello'
       say list reprise list
       say show reprise show "$HANDLE"
       rm "$SMALL/filler" "$SMALL/filler-2"
       say again reprise resume "$HANDLE" 'what do you remember?'`,
      { SMALL: small, REPRISE_HOME: join(small, "state"), REPRISE_DEMO_HOME: join(box.root, "demo-home") },
    );
    for (const name of ["start", "resume"]) {
      expect([name, said[name]?.code]).toEqual([name, 7]);
      expect(said[name]?.stderr).toContain(small);
      expect(said[name]?.stderr).not.toMatch(/\n\s+at |this is a bug/);
    }
    expect(said["list"]).toMatchObject({ code: 0, stdout: expect.stringMatching(/demo\s+\w+/) });
    expect(said["show"]).toMatchObject({ code: 0 });
    expect(said["again"]).toMatchObject({ code: 0, stdout: expect.stringContaining("4711") });
    const messages = box
      .journalEntries()
      .filter((entry) => entry["event"] === "message" && entry["text"] === "hello");
    expect(messages).toEqual([]);
  });
});

describe.skipIf(!CAN_MOUNT)("a disk without inodes", () => {
  test("shows existing runs, and start exits 7", () => {
    const small = join(box.root, "small-3");
    mkdirSync(small);
    const said = inNamespace(
      `mount -t tmpfs -o size=8m,nr_inodes=200 tmpfs "$SMALL"
       say first reprise start demo 'remember 4711'
       HANDLE=$(reprise list --handles)
       (cd "$SMALL" && seq -f filler-%g 300 | xargs touch 2>/dev/null) || true
       say start reprise start demo 'hello'
       say list reprise list
       say show reprise show "$HANDLE"
       rm "$SMALL"/filler-*
       say again reprise resume "$HANDLE" 'what do you remember?'`,
      { SMALL: small, REPRISE_HOME: join(small, "state"), REPRISE_DEMO_HOME: join(box.root, "demo-home") },
    );
    expect(said["start"]).toMatchObject({ code: 7, stderr: expect.stringContaining(small) });
    expect(said["list"]).toMatchObject({ code: 0, stdout: expect.stringMatching(/demo\s+\w+/) });
    expect(said["show"]).toMatchObject({ code: 0 });
    expect(said["again"]).toMatchObject({ code: 0, stdout: expect.stringContaining("4711") });
  });
});

describe.skipIf(!CAN_MOUNT)("a read-only disk", () => {
  test("allows list, show and logs; start and resume exit 7 and say why", async () => {
    const { handle } = await box.json(["start", "demo", "remember 4711"]);
    const from = box.journalEntries().length;
    const said = inNamespace(
      `mount --bind "$REPRISE_HOME" "$REPRISE_HOME"
       mount -o remount,bind,ro "$REPRISE_HOME"
       say list reprise list
       say show reprise show ${handle}
       say logs reprise logs ${handle} --raw
       say start reprise start demo hello
       say resume reprise resume ${handle} hello
       say rm reprise rm ${handle}`,
      {},
    );
    expect(said["list"]).toMatchObject({ code: 0, stdout: expect.stringContaining(handle) });
    expect(said["show"]).toMatchObject({ code: 0, stdout: expect.stringContaining("remember 4711") });
    expect(said["logs"]).toMatchObject({ code: 0, stdout: expect.stringContaining("turn.ended") });
    for (const name of ["start", "resume", "rm"]) {
      expect([name, said[name]?.code, said[name]?.stdout]).toEqual([name, 7, ""]);
      expect(said[name]?.stderr).toContain(`The state directory ${box.state} cannot be written to`);
      expect(said[name]?.stderr).not.toMatch(/\n\s+at |this is a bug/);
    }
    expect(box.journalEntries()).toHaveLength(from);
    expect(await box.json(["resume", handle, "what do you remember?"])).toMatchObject({ ok: true });
  });
});

describe.skipIf(!CAN_MOUNT)("a mount point in a run's directory", () => {
  test("stops every removal, including an earlier interrupted removal", async () => {
    const { handle, runDirectory } = await box.json(["start", "demo", "hello", "--isolate", "dir"]);
    const behind = join(box.root, "behind");
    mkdirSync(behind);
    writeFileSync(join(behind, "file"), "of somebody else\n");
    const said = inNamespace(
      `mkdir "$RUN/escrow/x"
       mount --bind "$BEHIND" "$RUN/escrow/x"
       say dry reprise prune --older-than 1ms --dry-run --json
       say rm reprise rm ${handle} --discard-work
       say there test -e "$RUN/run.json"
       mv "$RUN" "$REPRISE_HOME/runs/.trash-4194305-aabbcc"
       mkdir "$REPRISE_HOME/runs/.trash-4194305-ddeeff"
       say prune reprise prune --older-than 30d
       say other test ! -e "$REPRISE_HOME/runs/.trash-4194305-ddeeff"`,
      { RUN: runDirectory, BEHIND: behind },
    );
    const mount = `${runDirectory}/escrow/x is a mount point`;
    expect(JSON.parse(said["dry"]?.stdout ?? "")).toMatchObject({
      skipped: expect.arrayContaining([expect.objectContaining({ handle, code: "mount_inside" })]),
    });
    expect(said["rm"]).toMatchObject({ code: 8, stderr: expect.stringContaining(mount) });
    expect(said["there"]?.code).toBe(0);
    expect(said["prune"]).toMatchObject({ code: 0, stderr: expect.stringContaining("is a mount point") });
    expect(said["other"]?.code).toBe(0);
    expect(readdirSync(behind)).toEqual(["file"]);
  });
});

describe.skipIf(!ROOT)("another user's state directory (skipped unless root, who alone can make one)", () => {
  test("is refused", async () => {
    const state = join(box.root, "state-of-another");
    mkdirSync(state, { mode: 0o700 });
    chownSync(state, 65_534, 65_534);
    for (const args of [["list"], ["start", "demo", "hello"]]) {
      const result = await box.run(args, { env: { REPRISE_HOME: state } });
      expect([args, result.code]).toEqual([args, 8]);
      expect(result.stderr).toContain(state);
      expect(result.stderr).toContain("belongs to another user");
    }
  });
});

test("a state directory that others may write to is made private, with a note about it", async () => {
  const state = join(box.root, "state-open");
  mkdirSync(state);
  chmodSync(state, 0o777);
  const result = await box.run(["list"], { env: { REPRISE_HOME: state } });
  expect(result).toMatchObject({
    code: 0,
    stderr: expect.stringContaining(`${state} was open to other users (mode 777)`),
  });
  expect(statSync(state).mode & 0o777).toBe(0o700);
});

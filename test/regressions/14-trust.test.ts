/** A damaged record of trust is named wherever doctor is asked. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Sandbox } from "../e2e/sandbox.ts";

test("doctor names a damaged trusted.json once, in a project that needs trust and anywhere else", async () => {
  using box = new Sandbox();
  await box.json(["start", "demo", "hello"]);
  const path = join(box.state, "trusted.json");
  writeFileSync(path, "{");
  const project = join(box.root, "other");
  mkdirSync(project);
  writeFileSync(join(project, "reprise.toml"), '[engines.claude]\nprogram = "/bin/true"\n');
  for (const cwd of [box.cwd, project]) {
    const { findings } = await box.json<{ findings: { what: string; todo: string }[] }>(["doctor"], { cwd });
    const about = findings.filter(({ what }) => what.includes("trusted.json"));
    expect(about.map(({ todo }) => todo)).toEqual([`mv '${path}' '${path}.damaged'`]);
  }
}, 60_000);

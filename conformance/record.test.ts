import { expect, test } from "vitest";
import { scrub } from "./record.ts";

const session = "01a1de31-cd49-7220-983a-551a4336953f";
const lab = { sample: "01a1dd0a-a544-73b2-b8f5-4b79ca6d17f0" };
const scrubAt = (text: string, now: string) =>
  scrub(text, { lab, root: "/tmp/rc-7/case@x", session, nowMs: Date.parse(now) });

const cases: Record<string, [text: string, then: string]> = {
  "paths, ports and the session": [
    `/tmp/rc-7/case@x/project -tmp-rc-7-case-x 127.0.0.1:4711 ${session}`,
    `/home/user/lab/project -home-user-lab 127.0.0.1:8080 ${lab.sample}`,
  ],
  "times keep their distance": [
    "2026-11-20T08:00:01.5Z to 2026-11-20T09:00:00Z, report-2026-11-20T08-00-01-123Z.json, 1795161601000, at 9:00 AM",
    "2026-11-15T02:30:00.000Z to 2026-11-15T03:30:00.000Z, report-2026-11-15T02-30-00-000Z.json, 1794709800000, at 3:30 AM",
  ],
  "other ids are numbered": [
    "11111111-2222-4333-8444-555555555555 run=51bf4dd1 11111111-2222-4333-8444-555555555555 msg_1de3f6203001mDzO5LkWkH4zzC",
    "00000000-0000-4000-8000-000000000001 run=00000000 00000000-0000-4000-8000-000000000001 msg_00000000000000000000000002",
  ],
  durations: ['{"duration_ms":812,"retry_delay_ms": 523.25}', '{"duration_ms":100,"retry_delay_ms":100}'],
  "work in the background": [
    'timestamp=2026-11-20T08:00:00Z level=INFO run=51bf4dd1 message="project copy refresh done"\nkept',
    "kept",
  ],
};

test.each(Object.entries(cases))("%s", (_name, [text, then]) => {
  expect(scrubAt(text, "2026-11-20T08:00:00Z")).toBe(then);
});

test("scrubbing twice changes nothing", () => {
  for (const [, then] of Object.values(cases)) expect(scrubAt(then, "2026-11-15T02:30:00Z")).toBe(then);
});

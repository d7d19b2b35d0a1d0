/**
 * Files of the e2e project that take most of its time. A crash promise, the conformance suite or unit tests cover their
 * subjects too, so that `npm test` leaves them out. `npm run test:slow` runs them: before an issue is resolved, and after
 * a change to their subject.
 */
export const SLOW_FILES: readonly string[] = [
  // P16, conformance: escrow
  "test/regressions/14-leases.test.ts",
  "test/regressions/14-moved.test.ts",
  "test/regressions/13-escrow.test.ts",
  "test/regressions/13-kept-copies.test.ts",
  "test/regressions/13-whole-copies.test.ts",
  "test/regressions/14-live-links.test.ts",
  // P15, P17, P19, test/rights.test.ts
  "test/regressions/14-git-places.test.ts",
  "test/regressions/14-removed-places.test.ts",
  "test/regressions/14-rights.test.ts",
  "test/regressions/14-writers.test.ts",
  // test/e2e/issues.test.ts, conformance: issues
  "test/regressions/13-issues.test.ts",
  "test/regressions/13-issues-fresh.test.ts",
  "test/regressions/13-issues-go-on.test.ts",
  "test/regressions/13-issues-heard.test.ts",
  "test/regressions/13-issues-named.test.ts",
  "test/regressions/13-issues-offers.test.ts",
  "test/regressions/13-issues-people.test.ts",
  // test/e2e/agent.test.ts, conformance: supervisor
  "test/e2e/agent-ground.test.ts",
  "test/regressions/13-agents.test.ts",
  "test/regressions/13-supervision.test.ts",
  // test/e2e/lookup.test.ts, conformance: resume, stale, text
  "test/regressions/13-fork.test.ts",
  "test/regressions/13-going-back.test.ts",
  "test/regressions/13-left.test.ts",
  "test/regressions/13-own-sessions.test.ts",
  "test/regressions/13-text-output.test.ts",
  "test/regressions/13-unproven.test.ts",
];

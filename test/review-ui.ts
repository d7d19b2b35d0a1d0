/**
 * The review UI as a separate program, with a scripted service: `review-ui.js <script.json> [journal.jsonl]`. Its clock
 * shows REVIEW_UI_NOW where that is set.
 */
import { appendFileSync, readFileSync } from "node:fs";
import { openReview } from "../src/tui/tui.ts";
import { fakeReviewService, type Script } from "./fake-review-service.ts";

const [script = "", journal] = process.argv.slice(2);
const service = fakeReviewService(JSON.parse(readFileSync(script, "utf8")) as Script, (entry) => {
  if (journal !== undefined) appendFileSync(journal, `${JSON.stringify(entry)}\n`);
});
const now = process.env["REVIEW_UI_NOW"];
const code = await openReview({
  service,
  input: process.stdin,
  output: process.stdout,
  colours: (process.env["NO_COLOR"] ?? "") === "",
  now: () => (now === undefined ? Date.now() : Date.parse(now)),
});
process.exit(code);

/** `GET /api/v1/events`: the changes of runs as server-sent events, for scripts (`curl -N`). */
import type { ServerResponse } from "node:http";
import type { WebAccess, WebSession } from "./access.ts";
import { HEADERS } from "./guard.ts";
import type { Live } from "./live.ts";

const BEAT_MS = 1_000;
const MAX_UNREAD = 4 * 1024 * 1024;
const MOST_STREAMS = 16;
let open = 0;

export function serveEvents(
  response: ServerResponse,
  { feed }: Live,
  session: WebSession,
  access: WebAccess,
): void {
  if (open >= MOST_STREAMS) {
    response.writeHead(429, HEADERS).end();
    return;
  }
  open += 1;
  response.writeHead(200, { ...HEADERS, "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
  const write = (text: string) => {
    if (response.writableLength > MAX_UNREAD) response.destroy();
    else response.write(text);
  };
  write("event: ready\ndata: {}\n\n");
  const stop = feed.listen((change) => write(`event: runs\ndata: ${JSON.stringify(change)}\n\n`));
  const beat = setInterval(
    () => (access.isValid(session) ? write(": still here\n\n") : response.end()),
    BEAT_MS,
  );
  const offEnded = access.onEnded((id) => void (id === session.id && response.end()));
  response.on("close", () => {
    open -= 1;
    stop();
    offEnded();
    clearInterval(beat);
  });
}

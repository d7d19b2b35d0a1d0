/** A proxy that refuses and records every request, for systems where the network cannot be removed. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface RefusingProxy extends AsyncDisposable {
  readonly url: string;
  /** Host and port of every request, in order. */
  readonly refused: readonly string[];
}

export async function startRefusingProxy(): Promise<RefusingProxy> {
  const refused: string[] = [];
  const server = createServer((request, response) => {
    refused.push(
      URL.canParse(request.url ?? "") ? new URL(request.url ?? "").host : (request.headers.host ?? "?"),
    );
    response.writeHead(403).end();
  });
  server.on("connect", (request, socket) => {
    refused.push(request.url ?? "?");
    socket.on("error", () => {});
    socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
  });
  await new Promise<void>((ready) => void server.listen(0, "127.0.0.1", ready));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    refused,
    [Symbol.asyncDispose]: () =>
      new Promise((done) => {
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
}

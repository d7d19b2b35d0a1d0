import { request } from "node:http";
import { expect, test } from "vitest";
import { startRefusingProxy } from "./proxy.ts";

test("the proxy refuses every request and remembers the requested hosts", async () => {
  await using proxy = await startRefusingProxy();
  const { hostname: host, port } = new URL(proxy.url);
  const plain = await new Promise<number>((done) => {
    request({ host, port, path: "http://example.org/x" }, (answer) => done(answer.statusCode ?? 0)).end();
  });
  const tunnel = await new Promise<number>((done) => {
    const asked = request({ host, port, method: "CONNECT", path: "registry.example:443" });
    asked.on("connect", (answer, socket) => {
      socket.destroy();
      done(answer.statusCode ?? 0);
    });
    asked.end();
  });
  expect({ plain, tunnel, refused: proxy.refused }).toEqual({
    plain: 403,
    tunnel: 403,
    refused: ["example.org", "registry.example:443"],
  });
});

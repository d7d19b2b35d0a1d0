/** The model server as a program: `node --import tsx conformance/model-server.ts [port]`. */
import { startModelServer } from "../src/certify/model-server/server.ts";

const server = await startModelServer(Number(process.argv[2] ?? 0));
process.stdout.write(`${server.url}\n`);

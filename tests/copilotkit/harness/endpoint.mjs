// The scripted agent as an AG-UI endpoint, which may be written in any language; Threadline calls it directly.

import { once } from "node:events";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { play } from "./agent.mjs";

/** Serves the agent on a free port; returns its server and address. */
export async function serveAgent() {
  const server = createServer(async (request, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    const send = (event) => response.write(`data: ${JSON.stringify(event)}\n\n`);
    try {
      for await (const event of play(JSON.parse(await text(request)))) {
        if (response.destroyed) break;
        send(event);
      }
    } catch (error) {
      send({ type: "RUN_ERROR", message: error.message });
    }
    response.end();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return { server, url: `http://127.0.0.1:${server.address().port}/` };
}

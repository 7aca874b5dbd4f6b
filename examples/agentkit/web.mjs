// The chat's own server: the page, and two routes. All other requests of the page go to Threadline.

import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));

/** Serves the chat on this port, or on a free one for 0; returns the port. */
export async function serve({ port, url, chat }) {
  const bundled = await build({
    entryPoints: [here("page.js")],
    bundle: true,
    format: "esm",
    preserveSymlinks: true,
    write: false,
  });
  const script = bundled.outputFiles[0].text;
  const routes = {
    "GET /": async () => ["text/html; charset=utf-8", await readFile(here("page.html"))],
    "GET /page.js": async () => ["text/javascript; charset=utf-8", script],
    "GET /settings": async () => json({ url }),
    "GET /results": async ({ threadId }) => json(await chat.results(threadId)),
    "POST /say": async (_, body) => json(await chat.say(JSON.parse(body))),
  };
  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url, "http://localhost");
    const route = routes[`${request.method} ${pathname}`];
    if (!route) return response.writeHead(404).end();
    try {
      let body = "";
      for await (const piece of request.setEncoding("utf8")) body += piece;
      const [type, content] = await route(Object.fromEntries(searchParams), body);
      response.writeHead(200, { "content-type": type }).end(content);
    } catch (error) {
      console.error(error);
      response.writeHead(500, { "content-type": "application/json" }).end(JSON.stringify({ error: error.message }));
    }
  });
  await once(server.listen(port, "127.0.0.1"), "listening");
  return server.address().port;
}

function json(value) {
  return ["application/json", JSON.stringify(value)];
}

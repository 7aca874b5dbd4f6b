// Bundles the page and serves it until Ctrl-C.
//
//   THREADLINE_URL  the server (http://127.0.0.1:7420)
//   AGENT           the agent that answers (demo)
//   PORT            port of the page (5175)

import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const settings = {
  // Browsers resolve `localhost` to IPv6 first, and the page needs the address as well: see main.tsx.
  server: (process.env.THREADLINE_URL ?? "http://127.0.0.1:7420").replace(/\/$/, ""),
  agentId: process.env.AGENT ?? "demo",
};

const bundled = build({
  entryPoints: [here("main.tsx")],
  bundle: true,
  // CopilotKit loads most of its code when a message needs it.
  splitting: true,
  format: "esm",
  jsx: "automatic",
  write: false,
  outdir: "/",
  define: { "process.env.NODE_ENV": '"production"' },
  loader: { ".woff": "dataurl", ".woff2": "dataurl", ".ttf": "dataurl" },
  logLevel: "error",
});
const files = bundled.then(({ outputFiles }) => new Map(outputFiles.map(({ path, contents }) => [path, contents])));

const page = `<!doctype html>
<html lang="en">
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>One thread, seven clients</title>
<link rel="stylesheet" href="/main.css">
<script type="application/json" id="settings">${JSON.stringify(settings).replaceAll("<", "\\u003c")}</script>
<body><div id="app"></div><script type="module" src="/main.js"></script></body>
</html>`;

const server = createServer(async (request, response) => {
  const { pathname } = new URL(request.url, "http://page");
  const file = (await files).get(pathname);
  if (file) {
    const kind = pathname.endsWith(".css") ? "text/css" : "text/javascript";
    response.writeHead(200, { "Content-Type": `${kind}; charset=utf-8` }).end(file);
  } else if (pathname === "/") {
    response.writeHead(200, { "Content-Type": "text/html; charset=utf-8" }).end(page);
  } else {
    response.writeHead(404).end();
  }
});
server.listen(Number(process.env.PORT ?? 5175), "127.0.0.1", () => {
  console.log(`The page is listening on http://127.0.0.1:${server.address().port} (Ctrl-C ends it).`);
});

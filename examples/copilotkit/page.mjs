// Bundles the page and serves it.

import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));

const style = `
  body { margin: 0; font: 15px system-ui, sans-serif }
  #app { display: grid; grid-template-columns: 22rem 1fr; height: 100vh }
  nav { padding: 1rem; overflow: auto; background: #f6f6f4 }
  nav ul { list-style: none; padding: 0 }
  nav li { padding: .4rem; display: flex; gap: .3rem }
  nav li[aria-current="true"] { background: #e4e4df }
  nav li a { flex: 1; cursor: pointer; overflow: hidden; text-overflow: ellipsis; white-space: nowrap }
  main { height: 100vh; min-width: 0 }`;

const html = (settings) => `<!doctype html>
<html lang="en">
<meta charset="utf-8"><title>CopilotKit on Threadline</title>
<link rel="stylesheet" href="/page.css"><style>${style}</style>
<script type="application/json" id="settings">${JSON.stringify(settings).replaceAll("<", "\\u003c")}</script>
<body><div id="app"></div><script type="module" src="/page.js"></script></body>
</html>`;

/** Serves the page; `settings` returns the page's settings for a request: `runtimeUrl`, `agentId` and `headers`. */
export async function servePage(port, settings) {
  const { outputFiles } = await build({
    entryPoints: [here("page.jsx")],
    bundle: true,
    splitting: true,
    format: "esm",
    jsx: "automatic",
    minify: true,
    write: false,
    outdir: "/",
    define: { "process.env.NODE_ENV": '"production"' },
    loader: { ".woff": "dataurl", ".woff2": "dataurl", ".ttf": "dataurl" },
    logLevel: "error",
  });
  const files = new Map(outputFiles.map(({ path, contents }) => [path, contents]));
  const server = createServer((request, response) => {
    const path = new URL(request.url, "http://page").pathname;
    const file = files.get(path);
    if (file) {
      const kind = path.endsWith(".css") ? "text/css" : "text/javascript";
      response.writeHead(200, { "Content-Type": `${kind}; charset=utf-8` }).end(file);
    } else if (path === "/") {
      response.writeHead(200, { "Content-Type": "text/html; charset=utf-8" }).end(html(settings(request)));
    } else {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return server;
}

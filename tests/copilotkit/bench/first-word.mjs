// The time to the first word in a browser: through CopilotKit's runtime with Threadline as its platform, and with Threadline as the
// runtime, against CopilotKit's own runtime that keeps everything in memory. The same agent, the same browser, a new thread
// for each run, interleaved.
//
//   THREADLINE=target/release/threadline node tests/copilotkit/bench/first-word.mjs [ROUNDS]

import { createServer } from "node:http";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import load from "../packages/browser/import.mjs";
import { serveAgent } from "../harness/endpoint.mjs";
import { host, OPERATOR, Threadline } from "../harness/world.mjs";

const rounds = Number(process.argv[2] ?? 40);
const text = "say word 20 0";
const { build } = createRequire(new URL("../../../examples/copilotkit/package.json", import.meta.url))("esbuild");
const { chromium } = await load("playwright-core");

const bundle = await build({
  entryPoints: [fileURLToPath(new URL("page.js", import.meta.url))],
  nodePaths: [fileURLToPath(new URL("../packages/newest/node_modules", import.meta.url))],
  bundle: true,
  format: "esm",
  minify: true,
  write: false,
  define: { "process.env.NODE_ENV": '"production"' },
});
const page = createServer((request, response) => {
  const script = request.url === "/page.js";
  response.writeHead(200, { "Content-Type": script ? "text/javascript" : "text/html" });
  response.end(script ? bundle.outputFiles[0].contents : '<script type="module" src="/page.js"></script>');
});
await new Promise((resolve) => page.listen(0, "127.0.0.1", resolve));
const origin = `http://127.0.0.1:${page.address().port}`;

const agent = await serveAgent();
const threadline = await Threadline.start("--allowed-origins", origin, "--agent", `scripted=${agent.url}`);
const platform = { apiUrl: threadline.url, wsUrl: threadline.url.replace("http", "ws"), apiKey: OPERATOR };
const hosts = [await host({}), await host({ platform, webSocket: true }), await host({ platform, webSocket: false })];
const runtimes = hosts.map(({ url }) => ({ runtimeUrl: `${url}/api/copilotkit`, headers: { "x-user": "anna" } }));
const token = { Authorization: `Bearer ${await threadline.token("anna")}` };
const subjects = {
  "CopilotKit in memory": runtimes[0],
  "runtime and Threadline, WebSocket": runtimes[1],
  "runtime and Threadline, long-polling": runtimes[2],
  "Threadline alone": { runtimeUrl: `${threadline.url}/copilotkit`, headers: token },
};

const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
const tab = await browser.newPage();
await tab.goto(origin);
await tab.waitForFunction(() => window.measure);
const measure = (subject) => tab.evaluate((what) => window.measure(what), { ...subject, text });

const found = Object.fromEntries(Object.keys(subjects).map((name) => [name, []]));
for (let round = -5; round < rounds; round++) {
  const names = Object.keys(subjects);
  // Each is first in turn.
  for (const name of names.map((_, at) => names[(at + round + 5) % names.length])) {
    const measured = await measure(subjects[name]);
    if (round >= 0) found[name].push(measured);
  }
}
const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
const [own] = Object.values(found);
for (const [name, all] of Object.entries(found)) {
  const ratio = (what) => median(all.map((each, round) => each[what] / own[round][what])).toFixed(2);
  const ms = (what) => `${median(all.map((each) => each[what])).toFixed(1)} ms`;
  console.log(`${name}: first word ${ms("first")} (${ratio("first")} ×), whole run ${ms("end")} (${ratio("end")} ×)`);
}

await browser.close();
for (const each of hosts) await each.end();
await threadline.end();
agent.server.closeAllConnections();
process.exit();

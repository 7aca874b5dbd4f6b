// Starts everything that the example needs, until Ctrl-C: Threadline (or uses the one at THREADLINE_URL), the page, and
// with --runtime CopilotKit's own runtime between them.
//
//   THREADLINE      the program (target/release/threadline or target/debug/threadline)
//   THREADLINE_URL  a running Threadline server
//   THREADLINE_DATA the data directory (data)
//   PORT            port of the page (3000); the runtime uses the next one

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { servePage } from "./page.mjs";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const port = Number(process.env.PORT ?? 3000);
const withRuntime = process.argv.includes("--runtime");
const children = [];
let ending = false;
/** Ends after the programs: the data directory is closed then, and free for the next start. */
async function end(status) {
  if (ending) return;
  ending = true;
  const running = children.filter((child) => child.exitCode === null && child.signalCode === null && child.pid);
  const ended = running.map((child) => once(child, "exit"));
  for (const child of running) child.kill();
  await Promise.all(ended);
  process.exit(status);
}
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => end(0));

/** Starts a program and returns the address that it prints. */
function start(name, command, parameters, env = {}) {
  const child = spawn(command, parameters, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  child.on("error", (error) => fail(`${name} cannot be started: ${error.message}`));
  child.on("exit", (code) => fail(`${name} has ended (${code}).`));
  return new Promise((resolve) => {
    let said = "";
    child.stdout.setEncoding("utf8").on("data", (text) => {
      said += text;
      const address = said.match(/listening on (http:\S+)/);
      if (address) resolve(address[1]);
    });
  });
}

function fail(message) {
  if (!ending) console.error(message);
  return end(1);
}

async function threadline() {
  if (process.env.THREADLINE_URL) return process.env.THREADLINE_URL.replace(/\/$/, "");
  const built = ["../../target/release/threadline", "../../target/debug/threadline"].map(here).find(existsSync);
  const program = process.env.THREADLINE ?? built;
  if (!program) await fail("Build Threadline first: cargo build --release");
  return start("Threadline", program, ["dev", "--listen", "127.0.0.1:0", "--data", process.env.THREADLINE_DATA ?? here("data")]);
}

async function runtime(url) {
  if (!existsSync(here("runtime/node_modules"))) await fail("Install the runtime first: npm ci --ignore-scripts --prefix runtime");
  const env = { THREADLINE_URL: url, PORT: String(port + 1), COPILOTKIT_TELEMETRY_DISABLED: "true" };
  return `${await start("The runtime", process.execPath, [here("runtime/server.mjs")], env)}/api/copilotkit`;
}

const url = await threadline();
const settings = withRuntime
  ? { runtimeUrl: await runtime(url), agentId: "counter", headers: {} }
  : { runtimeUrl: `${url}/copilotkit`, agentId: "demo", headers: {} };
await servePage(port, () => settings);
console.log(`Threadline is at ${url}, and the page's runtimeUrl is ${settings.runtimeUrl}.`);
console.log(`The page is listening on http://localhost:${port} (open it in two tabs; Ctrl-C ends it).`);

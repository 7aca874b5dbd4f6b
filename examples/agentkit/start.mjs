// Starts everything that the example needs, until Ctrl-C: Threadline (or uses the one at THREADLINE_URL), a mock model (or
// uses OpenAI's or a compatible one), and the chat.
//
//   THREADLINE       the program (target/release/threadline or target/debug/threadline)
//   THREADLINE_URL   a running Threadline server, in development mode
//   THREADLINE_DATA  the data directory (data)
//   OPENAI_API_KEY   a key of a real model; OPENAI_BASE_URL and OPENAI_MODEL if it is not OpenAI's gpt-4o
//   PORT             port of the page (3000)

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
let server;
let ending = false;
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => end(0));

/** Ends after Threadline: the data directory is closed then, and free for the next start. */
async function end(status) {
  if (ending) return;
  ending = true;
  if (server?.pid && server.exitCode === null && server.signalCode === null) {
    const ended = once(server, "exit");
    server.kill();
    await ended;
  }
  process.exit(status);
}

function fail(message) {
  if (!ending) console.error(message);
  return end(1);
}

if (!existsSync(here("../../sdk/typescript/dist/index.js"))) {
  await fail("Build the package first: npm ci --ignore-scripts && npm run build, in sdk/typescript");
}

/** The address of a Threadline server: the one at THREADLINE_URL, or a newly started one. */
async function threadline() {
  if (process.env.THREADLINE_URL) return process.env.THREADLINE_URL.replace(/\/$/, "");
  const built = ["../../target/release/threadline", "../../target/debug/threadline"].map(here).find(existsSync);
  const program = process.env.THREADLINE ?? built;
  if (!program) await fail("Build Threadline first: cargo build --release");
  const data = process.env.THREADLINE_DATA ?? here("data");
  const parameters = ["dev", "--listen", "127.0.0.1:0", "--data", data];
  server = spawn(program, parameters, { stdio: ["ignore", "pipe", "inherit"] });
  server.on("error", (error) => fail(`Threadline cannot be started: ${error.message}`));
  server.on("exit", (code) => fail(`Threadline has ended (${code}).`));
  return new Promise((resolve) => {
    let said = "";
    server.stdout.setEncoding("utf8").on("data", (text) => {
      said += text;
      const address = said.match(/listening on (http:\S+)/);
      if (address) resolve(address[1]);
    });
  });
}

async function model() {
  const { OPENAI_API_KEY, OPENAI_BASE_URL, OPENAI_MODEL = "gpt-4o" } = process.env;
  if (OPENAI_API_KEY || OPENAI_BASE_URL) {
    return { model: OPENAI_MODEL, apiKey: OPENAI_API_KEY ?? "none", ...(OPENAI_BASE_URL && { baseUrl: OPENAI_BASE_URL }) };
  }
  const { startMockModel } = await import("./mock-model.mjs");
  return { model: "mock", apiKey: "none", baseUrl: await startMockModel() };
}

const { createChat } = await import("./agents.mjs");
const { serve } = await import("./web.mjs");
const url = await threadline();
const port = await serve({ port: Number(process.env.PORT ?? 3000), url, chat: createChat({ url, model: await model() }) });
console.log(`Threadline is at ${url}.`);
console.log(`The chat is listening on http://localhost:${port} (open it in two tabs; Ctrl-C ends it).`);

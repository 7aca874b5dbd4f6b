// Threadline, the backend of an application in front of it, and the network between them.

import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "./client.mjs";
import { serveAgent } from "./endpoint.mjs";
import { direct } from "./packages.mjs";
import { Program } from "./process.mjs";
import { Proxy } from "./proxy.mjs";

export const OPERATOR = "cpk_operator_of_the_tests";
const quiet = { COPILOTKIT_TELEMETRY_DISABLED: "true", DO_NOT_TRACK: "1", SCARF_ANALYTICS: "false", LOG_LEVEL: "warn" };

/** The real server with a data directory of its own, on a port that a restart reuses. */
export class Threadline {
  static async start(...options) {
    const threadline = new Threadline();
    threadline.options = options;
    if (direct) {
      threadline.agent = await serveAgent();
      for (const name of ["scripted", "other"]) options.push("--agent", `${name}=${threadline.agent.url}`);
    }
    threadline.port = await freePort();
    await threadline.serve();
    return threadline;
  }

  data = mkdtempSync(join(tmpdir(), "threadline-copilotkit-"));

  /** Starts the server, for the first time or again. */
  async serve() {
    const parameters = ["serve", "--listen", `127.0.0.1:${this.port}`, "--data", this.data, ...this.options];
    const env = { THREADLINE_API_KEY: OPERATOR, NO_COLOR: "1" };
    this.server = await Program.start("Threadline", process.env.THREADLINE, parameters, env);
    this.url = this.server.url;
  }

  /** A request of the native API on behalf of a user. */
  async send(user, method, path, body, headers = {}) {
    const response = await fetch(this.url + path, {
      method,
      headers: { Authorization: `Bearer ${OPERATOR}`, "Threadline-User": user, ...headers },
      body: body && JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response;
  }

  async get(user, path, headers) {
    return this.send(user, "GET", path, undefined, headers);
  }

  /** The events of a thread, from the log. */
  async log(user, threadId) {
    const path = `/v1/threads/${encodeURIComponent(threadId)}/events`;
    const lines = await (await this.get(user, path, { Accept: "application/x-ndjson" })).text();
    return lines.split("\n").filter(Boolean).map((line) => JSON.parse(line).event);
  }

  /** A token with which a browser acts for this user. */
  async token(user) {
    return (await (await this.send(user, "POST", "/v1/tokens", { userId: user })).json()).token;
  }

  async end() {
    await this.server.end();
    this.agent?.server.closeAllConnections();
    this.agent?.server.close();
    rmSync(this.data, { recursive: true, force: true });
  }
}

/** All that a user's tab needs. */
export class World {
  static async start({ threadline, webSocket = process.env.RUNNER === "websocket", ...settings } = {}) {
    const world = new World();
    world.own = threadline ? undefined : await Threadline.start();
    world.threadline = threadline ?? world.own;
    world.proxy = await Proxy.start(world.threadline.url);
    const platform = {
      apiUrl: world.threadline.url,
      wsUrl: world.proxy.url.replace("http", "ws"),
      apiKey: OPERATOR,
    };
    if (!direct) world.host = await host({ platform, webSocket, ...settings });
    return world;
  }

  /** A tab of this user, or of a new one. */
  async open(user = `user-${randomUUID()}`, agentId) {
    if (!direct) return Client.open(`${this.host.url}/api/copilotkit`, user, undefined, agentId);
    const headers = { Authorization: `Bearer ${await this.threadline.token(user)}` };
    return Client.open(`${this.proxy.url}/copilotkit`, user, headers, agentId);
  }

  log(chat) {
    return this.threadline.log(chat.client.user, chat.threadId);
  }

  /** A chat's thread, read through the native API. */
  async native(chat, what) {
    const path = `/v1/threads/${encodeURIComponent(chat.threadId)}/${what}`;
    return (await this.threadline.get(chat.client.user, path)).json();
  }

  async end() {
    await this.host?.end();
    this.proxy.close();
    await this.own?.end();
  }
}

/** A backend of an application. Without a platform it keeps everything in its own memory. */
export function host(settings) {
  const program = new URL("host.mjs", import.meta.url).pathname;
  return Program.start("the runtime", process.execPath, [program], { ...quiet, HOST: JSON.stringify(settings) });
}

// Below the range of ephemeral ports: a client that connects in vain could get its own port otherwise, and connect to itself.
export async function freePort() {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    const server = createServer();
    const free = await new Promise((resolve) => {
      server.once("error", () => resolve(false)).listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
    });
    if (free) return port;
  }
}

// A server, and a proxy before it, for the tests of a file.

import { afterAll, beforeAll } from "vitest";
import { Proxy } from "./proxy.js";
import { Server } from "./server.js";

export let server: Server;
export let proxy: Proxy;

/** Starts both before the tests of a file, and ends them after it. */
export function useProxiedServer(): void {
  beforeAll(async () => {
    server = await Server.start();
    proxy = await Proxy.start(server);
  });
  afterAll(async () => {
    proxy?.end();
    await server?.end();
  });
}

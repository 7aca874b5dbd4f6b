// A server, and a client of it, for the tests of a file.

import { afterAll, afterEach, beforeAll } from "vitest";
import { Threadline } from "../../src/index.js";
import { Server } from "./server.js";

export let server: Server;
export let client: Threadline;

/** Starts a server before the tests of a file, and ends it after them. */
export function useServer(): void {
  beforeAll(async () => {
    server = await Server.start();
  });
  afterAll(() => server?.end());
}

/** The same with a client. */
export function useServerAndClient(): void {
  useServer();
  beforeAll(() => {
    client = new Threadline({ url: server.url });
  });
  afterAll(() => client?.close());
}

/** Clients that are closed after each test, once `before` has been called. */
export function closedAfterEach(before: () => void = () => {}): Threadline[] {
  const clients: Threadline[] = [];
  afterEach(() => {
    before();
    for (const client of clients.splice(0)) client.close();
  });
  return clients;
}

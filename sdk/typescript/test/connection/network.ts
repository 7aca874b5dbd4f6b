// A client behind its own proxy, for the duration of a test.

import { onTestFinished } from "vitest";
import type { Threadline, ThreadlineOptions } from "../../src/index.js";
import { Proxy } from "../harness/proxy.js";
import type { Server } from "../harness/server.js";
import { connect } from "./reader.js";

/** `finished` is that of the test's context, which concurrent tests require. */
export async function behind(
  server: Server,
  options: Partial<ThreadlineOptions> = {},
  prepare: (proxy: Proxy) => void = () => {},
  finished: (end: () => void) => void = onTestFinished,
): Promise<[Threadline, Proxy]> {
  const proxy = await Proxy.start(server);
  prepare(proxy);
  const client = connect({ url: proxy.url, ...options });
  finished(() => {
    client.close();
    proxy.end();
  });
  return [client, proxy];
}

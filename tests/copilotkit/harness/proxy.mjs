// The network between CopilotKit and Threadline: forwards bytes until its connections are cut.

import { once } from "node:events";
import { connect, createServer } from "node:net";

export class Proxy {
  static async start(target) {
    const proxy = new Proxy(new URL(target));
    await once(proxy.server, "listening");
    return proxy;
  }

  constructor(target) {
    this.target = target;
    this.refused = new Set();
    this.pairs = new Set();
    this.server = createServer((near) => this.#serve(near)).listen(0, "127.0.0.1");
  }

  get url() {
    return `http://127.0.0.1:${this.server.address().port}`;
  }

  #serve(near) {
    const far = connect(Number(this.target.port), this.target.hostname);
    const pair = { near, far, path: "" };
    this.pairs.add(pair);
    const end = () => {
      near.destroy();
      far.destroy();
      this.pairs.delete(pair);
    };
    near.on("error", end).on("close", end);
    far.on("error", end).on("close", end);
    // The last request names the connection: clients reuse connections for later requests.
    near.on("data", (bytes) => {
      const path = bytes.toString("latin1").match(/^(?:GET|POST) (\S+) HTTP/)?.[1];
      if (path) pair.path = path;
      if ([...this.refused].some((prefix) => pair.path.startsWith(prefix))) return end();
      far.write(bytes);
    });
    far.pipe(near);
  }

  /** How many connections are open under this path. */
  open(prefix) {
    return [...this.pairs].filter((pair) => pair.path.startsWith(prefix)).length;
  }

  /** Cuts every connection under this path, without a close; returns how many. */
  cut(prefix) {
    const pairs = [...this.pairs].filter((pair) => pair.path.startsWith(prefix));
    for (const { near, far } of pairs) {
      near.destroy();
      far.destroy();
    }
    return pairs.length;
  }

  close() {
    this.cut("");
    this.server.close();
  }
}

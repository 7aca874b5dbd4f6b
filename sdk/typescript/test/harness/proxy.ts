import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server as Listener, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

const THROTTLE_TICK_MS = 10;

interface Pair {
  readonly near: Socket;
  readonly far: Socket;
  /** The last request of the connection, since clients reuse connections. */
  path: string;
  /** The buffered part of a response, while streams are buffered. */
  held: Buffer[] | undefined;
  /** The received part of an event stream that is to be cut. */
  streamed: string;
  /** Resolves when all data of the server has been written. */
  down: Promise<void>;
}

/** The network between a client and the server: forwards all bytes by default. */
export class Proxy {
  /** Connections end as soon as they are accepted. */
  refuse = false;
  /** Handling of WebSocket requests: forwarded, answered with 403, or never answered. */
  upgrade: "pass" | "refuse" | "swallow" = "pass";
  /** A complete response to every request in place of the server's, if set. */
  instead: string | undefined;
  /** Event streams are buffered until they end, like some proxies do. */
  bufferStreams = false;
  /** A response to requests for event streams in place of the server's. */
  insteadOfStreams: string | undefined;
  /** Event streams are cut as soon as this text has been received. */
  cutStreamsAt: string | undefined;
  /** The socket's welcome announces a heartbeat every second, which the server does not send: it seems to fall silent. */
  hurry = false;
  /** Bytes per second to the client over each connection. */
  bytesPerSecond = Infinity;
  /** Number of bytes received from the server. */
  bytes = 0;
  /** The requests received, as `GET /path`. */
  readonly requests: string[] = [];
  readonly #pairs = new Set<Pair>();
  readonly #port: number;
  readonly #listener: Listener;
  #stalled = false;

  static async start(target: { readonly port: number }): Promise<Proxy> {
    const proxy = new Proxy(target.port);
    await once(proxy.#listener.listen(0, "127.0.0.1"), "listening");
    return proxy;
  }

  private constructor(port: number) {
    this.#port = port;
    this.#listener = createServer((near) => this.#serve(near));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#listener.address() as AddressInfo).port}`;
  }

  /** Number of open connections whose last request was for a path with this prefix. */
  open(path = ""): number {
    return [...this.#pairs].filter((pair) => pair.path.startsWith(path)).length;
  }

  /** Cuts these connections abruptly; returns their number. */
  cut(path = ""): number {
    const pairs = [...this.#pairs].filter((pair) => pair.path.startsWith(path));
    for (const { near, far } of pairs) {
      near.destroy();
      far.destroy();
    }
    return pairs.length;
  }

  /** Forwards nothing any more in either direction, without closing connections. */
  stall(): void {
    this.#stalled = true;
    for (const { near, far } of this.#pairs) {
      near.pause();
      far.pause();
    }
  }

  /** Resumes stalled connections. */
  resume(): void {
    this.#stalled = false;
    for (const { near, far } of this.#pairs) {
      near.resume();
      far.resume();
    }
  }

  end(): void {
    this.cut();
    this.#listener.close();
  }

  #serve(near: Socket): void {
    if (this.refuse) return void near.destroy();
    const far = connect(this.#port, "127.0.0.1");
    const pair: Pair = { near, far, path: "", held: undefined, streamed: "", down: Promise.resolve() };
    this.#pairs.add(pair);
    const end = () => {
      near.destroy();
      far.destroy();
      this.#pairs.delete(pair);
    };
    near.on("error", end).on("close", end);
    far.on("error", end).on("close", async () => {
      await pair.down;
      if (!near.writableEnded) near.end(Buffer.concat(pair.held ?? []));
    });
    near.on("data", (bytes: Buffer) => this.#up(pair, bytes));
    far.on("data", (bytes: Buffer) => void (pair.down = this.#down(pair, bytes)));
    if (this.#stalled) {
      near.pause();
      far.pause();
    }
  }

  #up(pair: Pair, bytes: Buffer): void {
    const head = bytes.toString("latin1");
    const [, method, path] = /^([A-Z]+) (\S+) HTTP\/1/.exec(head) ?? [];
    if (method && path) {
      pair.path = path;
      this.requests.push(`${method} ${path}`);
      const isStream = /^accept: text\/event-stream\r$/im.test(head);
      const instead = this.instead ?? (isStream ? this.insteadOfStreams : undefined);
      if (instead !== undefined) {
        pair.far.destroy();
        return void pair.near.end(instead);
      }
      if (this.upgrade !== "pass" && /^upgrade: websocket\r$/im.test(head)) {
        // The server does not receive a swallowed request, and so sends nothing.
        if (this.upgrade === "refuse") {
          pair.near.end("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
        return;
      }
    }
    pair.far.write(bytes);
  }

  async #down(pair: Pair, bytes: Buffer): Promise<void> {
    this.bytes += bytes.length;
    const isStream = /^HTTP\/1[^]*\r\ncontent-type: text\/event-stream/i.test(bytes.toString("latin1"));
    if (this.bufferStreams && isStream) pair.held = [];
    if (pair.held) return void pair.held.push(bytes);
    if (this.cutStreamsAt !== undefined && (isStream || pair.streamed)) {
      pair.streamed += bytes.toString("latin1");
      if (pair.streamed.includes(this.cutStreamsAt)) {
        // The received part is delivered, and then the connection ends.
        pair.near.end(bytes);
        return void pair.far.destroy();
      }
    }
    if (this.hurry) {
      const text = bytes.toString("latin1");
      const promise = '"heartbeatSeconds":15';
      // Of the same length, so that the frame stays valid.
      if (text.includes(promise)) bytes = Buffer.from(text.replace(promise, '"heartbeatSeconds": 1'), "latin1");
    }
    if (this.bytesPerSecond === Infinity) return void pair.near.write(bytes);
    pair.far.pause();
    for (let at = 0; at < bytes.length && !pair.near.destroyed;) {
      // The setting may have changed meanwhile.
      const end = at + Math.max(1, Math.floor((this.bytesPerSecond * THROTTLE_TICK_MS) / 1_000));
      pair.near.write(bytes.subarray(at, end));
      at = end;
      await sleep(THROTTLE_TICK_MS);
    }
    if (!this.#stalled) pair.far.resume();
  }
}

import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server as Listener, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

const THROTTLE_TICK_MS = 10;

interface Pair {
  readonly near: Socket;
  readonly far: Socket;
  /** Of the last request: clients keep connections for the next. */
  path: string;
  /** What is kept back of a response, if it is. */
  held: Buffer[] | undefined;
  /** What has come of an event stream, if it is to be cut. */
  streamed: string;
  /** Until everything that came from the server has been written. */
  down: Promise<void>;
}

/** The network between a client and the server: bytes as they come, until it is told otherwise. */
export class Proxy {
  /** Connections end as soon as they are made. */
  refuse = false;
  /** What happens to a request for a WebSocket: passed on, answered 403, or never answered. */
  upgrade: "pass" | "refuse" | "swallow" = "pass";
  /** What answers every request in the server's place, if anything does: a whole response. */
  instead: string | undefined;
  /** Event streams are kept back until they end, as some proxies do. */
  bufferStreams = false;
  /** What answers requests for event streams in the server's place. */
  insteadOfStreams: string | undefined;
  /** Event streams are cut as soon as this has come by. */
  cutStreamsAt: string | undefined;
  /** The socket's welcome promises a heartbeat every second, which the server does not keep: it seems to fall silent. */
  hurry = false;
  /** Bytes a second that go to the client over each connection. */
  bytesPerSecond = Infinity;
  /** Bytes that came from the server. */
  bytes = 0;
  /** The requests that came, as `GET /path`. */
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

  /** How many connections are open whose last request was for a path with this start. */
  open(path = ""): number {
    return [...this.#pairs].filter((pair) => pair.path.startsWith(path)).length;
  }

  /** Cuts those connections, without a word; says how many. */
  cut(path = ""): number {
    const pairs = [...this.#pairs].filter((pair) => pair.path.startsWith(path));
    for (const { near, far } of pairs) {
      near.destroy();
      far.destroy();
    }
    return pairs.length;
  }

  /** Nothing goes through any more, in neither direction, and nobody is told. */
  stall(): void {
    this.#stalled = true;
    for (const { near, far } of this.#pairs) {
      near.pause();
      far.pause();
    }
  }

  /** What was stalled goes on. */
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
        // What is swallowed the server does not hear, and so it says nothing.
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
        // What has come is delivered, and then there is no more.
        pair.near.end(bytes);
        return void pair.far.destroy();
      }
    }
    if (this.hurry) {
      const text = bytes.toString("latin1");
      const promise = '"heartbeatSeconds":15';
      // Of the same length, for the frame to stay whole.
      if (text.includes(promise)) bytes = Buffer.from(text.replace(promise, '"heartbeatSeconds": 1'), "latin1");
    }
    if (this.bytesPerSecond === Infinity) return void pair.near.write(bytes);
    pair.far.pause();
    for (let at = 0; at < bytes.length && !pair.near.destroyed;) {
      // It may have been told otherwise meanwhile.
      const end = at + Math.max(1, Math.floor((this.bytesPerSecond * THROTTLE_TICK_MS) / 1_000));
      pair.near.write(bytes.subarray(at, end));
      at = end;
      await sleep(THROTTLE_TICK_MS);
    }
    if (!this.#stalled) pair.far.resume();
  }
}

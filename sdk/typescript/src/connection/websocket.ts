// One socket for all subscriptions.

import { ConfigError, ConnectionError, ProtocolError } from "../errors.js";
import { CHECK_MS, MISSED_HEARTBEATS, OPEN_TIMEOUT_MS } from "../limits.js";
import {
  type FrameOf,
  parseFrame,
  type ServerFrame,
  type SubscribeRequest,
  subscribeFrame,
  unsubscribeFrame,
} from "./frames.js";
import type { Failing } from "./machine.js";
import {
  closing,
  type Context,
  diagnose,
  failing,
  type Listener,
  type Transport,
  type Wanted,
  Watchdog,
} from "./transport.js";

const PROTOCOL = "threadline.v1";
const OPEN = 1;

export class SocketTransport implements Transport {
  readonly #context: Context;
  readonly #listener: Listener;
  readonly #followed = new Map<Wanted, SubscribeRequest | undefined>();
  readonly #watchdog: Watchdog;
  #socket: WebSocket | undefined;
  #welcome = false;
  #farewell: FrameOf<"closing">["body"] | undefined;
  #over = false;

  constructor(context: Context, listener: Listener) {
    this.#context = context;
    this.#listener = listener;
    this.#watchdog = new Watchdog(OPEN_TIMEOUT_MS, () => this.#silent());
    void this.#open();
  }

  add(wanted: Wanted): void {
    this.#followed.set(wanted, undefined);
    if (this.#welcome) this.#subscribe(wanted);
  }

  remove(wanted: Wanted): void {
    const request = this.#followed.get(wanted);
    this.#followed.delete(wanted);
    if (request) this.#send(unsubscribeFrame(request));
  }

  check(): void {
    this.#send('{"ping":{}}');
    this.#watchdog.hurry(CHECK_MS);
  }

  close(): void {
    this.#over = true;
    this.#watchdog.stop();
    this.#socket?.close(1000);
  }

  async #open(): Promise<void> {
    const { config, http, bearer } = this.#context;
    const { WebSocket } = config;
    if (!WebSocket) {
      const error = new ConfigError("there is no WebSocket here: give one as an option, or allow other transports");
      return this.#end({ name: "unsupported", error });
    }
    const url = http.url(["socket"]);
    url.protocol = url.protocol.replace("http", "ws");
    const protocols = [PROTOCOL];
    try {
      // A browser's WebSocket can set no headers. Most credentials can be the name of a subprotocol; all else is said by a
      // ticket.
      if (Object.keys(config.headers).length > 0 || (bearer !== undefined && !/^[\w!#$%&'*+.^`|~-]+$/.test(bearer))) {
        const path = ["socket-tickets"];
        const { ticket } = await http.once<{ ticket: string }>({ method: "POST", path, timeoutMs: OPEN_TIMEOUT_MS });
        url.searchParams.set("ticket", ticket);
      } else if (bearer !== undefined) {
        protocols.push(`bearer.${bearer}`);
      }
      if (this.#over) return;
      this.#socket = new WebSocket(url.href, protocols);
    } catch (error) {
      return this.#end(failing(error));
    }
    this.#watchdog.expect(OPEN_TIMEOUT_MS);
    this.#socket.onmessage = ({ data }) => this.#message(data);
    // What it has to say is in the close event that follows.
    this.#socket.onerror = () => {};
    this.#socket.onclose = ({ code, reason }) => this.#closed(code, reason);
  }

  #message(data: unknown): void {
    if (this.#over) return;
    this.#watchdog.heard();
    let frame: ServerFrame | undefined;
    try {
      if (typeof data !== "string") throw new ProtocolError("a frame that is no text. Is this a Threadline server?");
      frame = parseFrame(data);
    } catch (error) {
      return this.#end(failing(error));
    }
    switch (frame?.name) {
      case "pong":
        return;
      case "welcome":
        this.#welcome = true;
        this.#watchdog.expect(MISSED_HEARTBEATS * 1_000 * Math.max(1, frame.body.heartbeatSeconds));
        this.#listener.opened();
        for (const wanted of this.#followed.keys()) this.#subscribe(wanted);
        return;
      case "heartbeat":
        // The server closes connections that never say anything.
        this.#send('{"ping":{}}');
        return this.#listener.alive();
      case "closing":
        this.#farewell = frame.body;
        return;
      default:
        // One of a later version is passed over.
        return frame && this.#listener.frame(frame);
    }
  }

  #closed(code: number, reason: string): void {
    if (this.#over) return;
    const said = this.#farewell ?? { code, reason, retryAfterMs: undefined };
    if (this.#welcome || said.code >= 4000) return this.#end(closing(said.code, said.reason, said.retryAfterMs));
    void this.#diagnose({ name: "blocked", error: new ConnectionError(`no WebSocket could be opened (${code})`) });
  }

  #silent(): void {
    if (this.#welcome) return this.#end({ name: "silent", error: new ConnectionError("the server is silent") });
    // Something between swallows it: to try once more would only take as long.
    void this.#diagnose({ name: "unsupported", error: new ConnectionError("no WebSocket opened in time") });
  }

  async #diagnose(otherwise: Failing): Promise<void> {
    this.close();
    this.#listener.ended(await diagnose(this.#context, otherwise));
  }

  #end(why: Failing): void {
    if (this.#over) return;
    this.close();
    this.#listener.ended(why);
  }

  #subscribe(wanted: Wanted): void {
    const request = wanted.request();
    this.#followed.set(wanted, request);
    this.#send(subscribeFrame(request));
  }

  #send(text: string): void {
    if (this.#socket?.readyState === OPEN) this.#socket.send(text);
  }
}

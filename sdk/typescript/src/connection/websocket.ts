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
import { failing } from "./failing.js";
import type { Failing } from "./machine.js";
import { closing, diagnose, type OpenTransport, type Wanted, watchdog } from "./transport.js";

const PROTOCOL = "threadline.v1";
const PING = '{"ping":{}}';
const OPEN = 1;

/** Follows over a socket. */
export const openSocket: OpenTransport = (context, listener) => {
  const { config, http, bearer } = context;
  const followed = new Map<Wanted, SubscribeRequest | undefined>();
  let socket: WebSocket | undefined;
  let welcome = false;
  const over = new AbortController();
  let farewell: FrameOf<"closing">["body"] | undefined;

  const watch = watchdog(OPEN_TIMEOUT_MS, () => {
    if (welcome)
      return end({ name: "silent", error: new ConnectionError("the server sent nothing before the timeout") });
    // An intermediary swallows the connection, and another attempt would take as long.
    void explain({ name: "unsupported", error: new ConnectionError("no WebSocket opened before the timeout") });
  });

  const close = () => {
    over.abort();
    watch.stop();
    socket?.close(1000);
  };

  const end = (why: Failing) => {
    if (over.signal.aborted) return;
    close();
    listener.ended(why);
  };

  const explain = async (otherwise: Failing) => {
    close();
    listener.ended(await diagnose(context, otherwise));
  };

  const send = (text: string) => {
    if (socket?.readyState === OPEN) socket.send(text);
  };

  const subscribe = (wanted: Wanted) => {
    const request = wanted.request();
    followed.set(wanted, request);
    send(subscribeFrame(request));
  };

  const take = (frame: ServerFrame) => {
    switch (frame.name) {
      case "welcome":
        welcome = true;
        watch.expect(MISSED_HEARTBEATS * 1_000 * Math.max(1, frame.body.heartbeatSeconds));
        listener.opened();
        return [...followed.keys()].forEach(subscribe);
      case "heartbeat":
        // The server closes connections that never send anything.
        send(PING);
        return listener.alive();
      case "closing":
        farewell = frame.body;
        return;
      case "pong":
        return listener.alive();
      default:
        return listener.frame(frame);
    }
  };

  const open = async () => {
    const { WebSocket } = config;
    if (!WebSocket) {
      const error = new ConfigError(
        "WebSocket is not available here: pass one as an option, or allow other transports",
      );
      return end({ name: "unsupported", error });
    }
    const protocols = [PROTOCOL];
    let ticket: string | undefined;
    try {
      // A WebSocket of a browser cannot set headers. Most credentials fit into the name of a subprotocol; otherwise a
      // ticket is used.
      if (Object.keys(config.identity).length > 0 || (bearer !== undefined && !/^[\w!#$%&'*+.^`|~-]+$/.test(bearer))) {
        const path = ["socket-tickets"];
        const { signal } = over;
        const call = { method: "POST", path, timeoutMs: OPEN_TIMEOUT_MS, signal } as const;
        ({ ticket } = await http.once<{ ticket: string }>(call));
      } else if (bearer !== undefined) {
        protocols.push(`bearer.${bearer}`);
      }
      if (over.signal.aborted) return;
      socket = new WebSocket(http.url(["socket"], { ticket }).replace(/^http/i, "ws"), protocols);
    } catch (error) {
      return end(failing(http.onTheWay(error)));
    }
    watch.expect(OPEN_TIMEOUT_MS);
    socket.onmessage = ({ data }) => {
      if (over.signal.aborted) return;
      watch.heard();
      try {
        if (typeof data !== "string") throw new ProtocolError("a frame is not text. Is this a Threadline server?");
        const frame = parseFrame(data);
        // A frame of a later version is ignored.
        if (frame) take(frame);
      } catch (error) {
        end(failing(error));
      }
    };
    // The close event that follows has the details.
    socket.onerror = () => {};
    socket.onclose = (event) => {
      if (over.signal.aborted) return;
      const { code, reason } = farewell ?? event;
      const retryAfterMs = farewell?.retryAfterMs;
      if (welcome || code >= 4000) return end(closing(code, reason, retryAfterMs));
      void explain({ name: "blocked", error: new ConnectionError(`no WebSocket could be opened (${code})`) });
    };
  };

  void open();
  return {
    add: (wanted) => {
      followed.set(wanted, undefined);
      if (welcome) subscribe(wanted);
    },
    remove: (wanted) => {
      const request = followed.get(wanted);
      followed.delete(wanted);
      if (request) send(unsubscribeFrame(request));
    },
    check: () => {
      send(PING);
      watch.hurry(CHECK_MS);
    },
    close,
  };
};

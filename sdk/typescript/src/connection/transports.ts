// Transports are loaded for the first connection that uses them: a page shows what it has before that, and most pages need one
// of them.

import { loaded } from "../errors.js";
import { failing } from "./failing.js";
import type { OpenTransport, Transport, Wanted } from "./transport.js";

/** A transport whose code is loaded for its first connection. A failure to load it counts as a broken connection. */
function loadedFirst(load: () => Promise<OpenTransport>): OpenTransport {
  return (context, listener) => {
    const waiting = new Set<Wanted>();
    let transport: Transport | undefined;
    let over = false;
    loaded(load()).then(
      (open) => {
        if (over) return;
        transport = open(context, listener);
        for (const wanted of waiting) transport.add(wanted);
      },
      (error: unknown) => !over && listener.ended(failing(error)),
    );
    return {
      add: (wanted) => (transport ?? waiting).add(wanted),
      remove: (wanted) => (transport ? transport.remove(wanted) : waiting.delete(wanted)),
      check: () => transport?.check(),
      close: () => {
        over = true;
        transport?.close();
      },
    };
  };
}

export const openSocket = loadedFirst(async () => (await import("./websocket.js")).openSocket);
export const openEventStreams = loadedFirst(async () => (await import("./sse.js")).openEventStreams);
export const openLongPolls = loadedFirst(async () => (await import("./longpoll.js")).openLongPolls);

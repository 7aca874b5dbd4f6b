// Transports for networks that block WebSockets. Most pages never need them, so they are loaded on demand.

import { ConnectionError } from "../errors.js";
import type { OpenTransport, Transport, Wanted } from "./transport.js";

/** A transport whose code is loaded for its first connection. A failure to load it counts as a broken connection. */
function loadedFirst(load: () => Promise<OpenTransport>): OpenTransport {
  return (context, listener) => {
    const waiting = new Set<Wanted>();
    let transport: Transport | undefined;
    let over = false;
    load().then(
      (open) => {
        if (over) return;
        transport = open(context, listener);
        for (const wanted of waiting) transport.add(wanted);
      },
      (cause: unknown) => {
        const error = new ConnectionError("cannot load the transport code", { cause });
        if (!over) listener.ended({ name: "lost", error });
      },
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

export const openEventStreams = loadedFirst(async () => (await import("./sse.js")).openEventStreams);
export const openLongPolls = loadedFirst(async () => (await import("./longpoll.js")).openLongPolls);

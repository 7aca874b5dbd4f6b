// The transports for networks that let no socket through. Most pages never need them, and do not load them.

import { ConnectionError } from "../errors.js";
import type { OpenTransport, Transport, Wanted } from "./transport.js";

/** A transport whose code is loaded with its first connection. One that cannot be loaded counts as a connection that broke. */
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
        const error = new ConnectionError("cannot load the code of a transport", { cause });
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

// Event streams that fall silent: buffered by an intermediary, or not. In fake time, with handwritten responses.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Threadline } from "../../src/index.js";
import { HEARTBEAT_MS, MISSED_HEARTBEATS, OPEN_TIMEOUT_MS } from "../../src/limits.js";
import { Reader, statuses } from "./reader.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const POSITION = { threadId: "t", epoch: "e", tail: 0, after: 0, seq: 0, cursor: 0 };
const PAGE = { ...POSITION, hasMore: false, events: [] };

/** A handwritten server: every stream sends a hello and becomes live, followed by the frames of `more`. */
function serve(more: (say: (text: string) => void) => void) {
  const bytes = new TextEncoder();
  return vi.fn<typeof fetch>(async (input, init) => {
    const url = new URL(String(input));
    if (url.searchParams.get("wait") === "25") return new Promise<Response>(() => {});
    if (new Headers(init?.headers).get("Accept") !== "text/event-stream") return Response.json(PAGE);
    const body = new ReadableStream<Uint8Array>({
      start(stream) {
        const say = (text: string) => stream.enqueue(bytes.encode(text));
        say(
          `event: hello\ndata: ${JSON.stringify(POSITION)}\n\nevent: caught_up\ndata: ${JSON.stringify(POSITION)}\n\n`,
        );
        init!.signal!.addEventListener("abort", () => stream.error(init!.signal!.reason));
        more(say);
      },
    });
    return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
  });
}

describe("a stream that falls silent while the server is reachable", () => {
  test.each([
    ["at once", 0, "long-poll"],
    ["as soon as it has begun", OPEN_TIMEOUT_MS / 2, "long-poll"],
    ["after a while", HEARTBEAT_MS, "sse"],
  ])("%s", async (_, saysUntil, transport) => {
    const fetch = serve((say) => saysUntil > 0 && setTimeout(() => say(":\n\n"), saysUntil));
    const client = new Threadline({ url: "http://t", transports: ["sse", "long-poll"], fetch });
    const seen = statuses(client);
    const reader = new Reader(client, "t");
    const connected = (transport: string) =>
      // The code of a transport is loaded in real time, while fake time advances in small steps.
      vi.waitFor(() => expect(client.status).toEqual({ state: "live", transport }), { timeout: 20_000, interval: 10 });
    await connected("sse");
    await vi.advanceTimersByTimeAsync(saysUntil + MISSED_HEARTBEATS * HEARTBEAT_MS + 1_000);
    await connected(transport);
    expect(seen.map(({ state }) => state)).toContain(transport === "sse" ? "reconnecting" : "connecting");
    expect(reader.error).toBeUndefined();
    client.close();
  });
});

import { DefaultChatTransport, type HttpChatTransportInitOptions, type UIMessage } from "ai";
import type { Threadline } from "../client.js";
import { ConnectionError, isProblem, messageOf } from "../errors.js";
import { type Http, httpOf } from "../http.js";
import { reasonOf } from "../platform.js";
import type { Busy, Cancellable } from "../runs.js";
import { addressOf } from "./address.js";

type Bytes = Uint8Array<ArrayBuffer>;

/** A tool that the page carries out, in AG-UI's form. */
export interface PageTool {
  readonly name: string;
  readonly description: string;
  /** JSON schema of the arguments. */
  readonly parameters?: Readonly<Record<string, unknown>>;
}

/** Options of a transport: the client, the agent, and members of each request. */
export interface TransportOptions<M extends UIMessage = UIMessage> {
  /** The client, whose address, credentials and `fetch` each request uses. */
  readonly client: Threadline;
  /** The agent that answers. */
  readonly agentId: string;
  /** Tools that the page carries out in `onToolCall`; a function is called for each message that is sent. */
  readonly tools?: readonly PageTool[] | (() => readonly PageTool[]);
  /** Treatment of a message while another run is active; by default the agent's. A message that waits is silent until its turn. */
  readonly busy?: Busy;
  /** Further headers of each request, or a function that returns them. */
  readonly headers?: HttpChatTransportInitOptions<M>["headers"];
  /** Further members of the body of each message, or a function that returns them; the agent receives them in `forwardedProps`. */
  readonly body?: HttpChatTransportInitOptions<M>["body"];
}

/**
 * A transport of `useChat` for durable chats: `new ThreadlineChatTransport({ client, agentId })`. The id of a chat is that of its
 * thread. Only the last message of a page is sent, since the server knows the others.
 *
 * A refusal of the server is a `ProblemError`, in `error` of `useChat` too. A lost connection is a `TypeError`, by which the AI
 * SDK knows it; its `cause` is the `ConnectionError`.
 */
export class ThreadlineChatTransport<M extends UIMessage = UIMessage> extends DefaultChatTransport<M> {
  readonly #http: Http;
  readonly #agentId: string;

  /** Creates a transport. Throws a `ConfigError` if the agent's id cannot be one. */
  constructor(options: TransportOptions<M>) {
    const { client, agentId, tools, busy, headers, body } = options;
    const http = httpOf(client);
    super({
      api: addressOf(http, agentId),
      ...(headers && { headers }),
      ...(body && { body }),
      fetch: (address, init) => send(http, String(address), init, busy),
      prepareSendMessagesRequest: ({ id, messages, trigger, messageId, body }) => ({
        body: { ...toolsOf(tools), ...body, id, trigger, messageId, message: messages.at(-1) },
      }),
      prepareReconnectToStreamRequest: ({ id }) => ({ api: addressOf(http, agentId, id, "stream") }),
    });
    this.#http = http;
    this.#agentId = agentId;
  }

  /**
   * Requests a stop of the active run of a chat, for all pages: their streams end with what was said. `stop` of `useChat` only
   * leaves the stream, while the run continues. Resolves if nothing is active.
   */
  async stop(chatId: string, options: Cancellable = {}): Promise<void> {
    const { signal } = options;
    const path = addressOf(this.#http, this.#agentId, chatId, "stop");
    await this.#http.call({ method: "POST", path, signal }).catch((error: unknown) => {
      if (!isProblem(error, "thread-not-found")) throw error;
    });
  }
}

function toolsOf(tools: TransportOptions["tools"]): { tools?: readonly PageTool[] } {
  const given = typeof tools === "function" ? tools() : tools;
  return given ? { tools: given } : {};
}

/** Sends a request of the SDK. A message is sent once: a repeated one would be answered twice. */
async function send(http: Http, path: string, init: RequestInit = {}, busy: Busy | undefined): Promise<Response> {
  const { over, done } = http.begin(init.signal ?? undefined);
  const { "content-type": _, ...headers } = Object.fromEntries(new Headers(init.headers));
  const isSent = init.method === "POST";
  const call = {
    path,
    method: isSent ? ("POST" as const) : ("GET" as const),
    headers: isSent && busy ? { "threadline-busy": busy, ...headers } : headers,
    body: init.body ?? undefined,
    signal: over.signal,
    retryFor: isSent ? 0 : undefined,
  };
  try {
    const response = await http.retrying((each) => http.open({ ...call, ...each }), call);
    const { body, status, headers } = response;
    // A browser gives an empty body to a response that must not have one.
    if (body && status !== 204) return new Response(whole(body, over.signal, done), { status, headers });
    done();
    return response;
  } catch (error) {
    done();
    throw error instanceof ConnectionError ? lost(error) : error;
  }
}

/** A body that is read by others, and `done`, which is called at its end. */
function whole(body: ReadableStream<Bytes>, signal: AbortSignal, done: () => void): ReadableStream<Bytes> {
  const reader = body.getReader();
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done: isOver, value } = await reader.read();
        if (!isOver) return controller.enqueue(value);
        controller.close();
      } catch (error) {
        const broken = () => new ConnectionError(`the stream broke (${messageOf(error)})`, { cause: error });
        controller.error(signal.aborted ? reasonOf(signal) : lost(broken()));
      }
      done();
    },
    cancel(reason) {
      done();
      return reader.cancel(reason);
    },
  });
}

/** An error that the SDK takes for a lost connection, by its class and its first words: it resumes the chat after it. */
function lost(cause: ConnectionError): TypeError {
  return new TypeError(`fetch failed: ${cause.message}`, { cause });
}

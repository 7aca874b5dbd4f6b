import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { openai } from "@inngest/agent-kit";

/** The model's response to one request: a text, tool calls, or an error. */
export interface Reply {
  readonly text?: string;
  readonly calls?: readonly { readonly name: string; readonly args: unknown; readonly id?: string }[];
  readonly error?: string;
}

export interface Asked {
  readonly messages: readonly { readonly role: string; readonly content: unknown; readonly tool_calls?: unknown[] }[];
  readonly tools?: readonly { readonly function: { readonly name: string } }[];
}

/** A server with OpenAI's chat completions API, which returns configured responses. */
export class Model {
  /** The requests received. */
  readonly asked: Asked[] = [];
  /** Responds to a request; returns `reply N` by default. */
  answer: (asked: Asked) => Reply | Promise<Reply> = () => ({ text: `reply ${this.asked.length}` });
  readonly #server: Server;
  #calls = 0;

  static async start(): Promise<Model> {
    const model = new Model();
    await once(model.#server.listen(0, "127.0.0.1"), "listening");
    return model;
  }

  private constructor() {
    this.#server = createServer((request, response) => {
      void body(request).then(async (text) => {
        const { status, said } = await this.complete(JSON.parse(text) as Asked);
        response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(said));
      });
    });
    // Node closes an idle connection after 5 s of real time, perhaps just as a client whose time is paused uses it again.
    this.#server.keepAliveTimeout = 0;
  }

  /** AgentKit's model that uses this server. */
  get adapter(): ReturnType<typeof openai> {
    const { port } = this.#server.address() as AddressInfo;
    return openai({ model: "gpt-4o", apiKey: "none", baseUrl: `http://127.0.0.1:${port}/v1/` });
  }

  async complete(asked: Asked): Promise<{ status: number; said: unknown }> {
    this.asked.push(asked);
    const { text, calls, error } = await this.answer(asked);
    if (error) return { status: 500, said: { error: { message: error } } };
    const toolCalls = calls?.map(({ name, args, id }) => ({
      id: id ?? `call_${(this.#calls += 1)}`,
      type: "function",
      function: { name, arguments: JSON.stringify(args) },
    }));
    const message = { role: "assistant", content: text ?? null, ...(toolCalls && { tool_calls: toolCalls }) };
    const choices = [{ index: 0, message, finish_reason: toolCalls ? "tool_calls" : "stop" }];
    const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
    return { status: 200, said: { id: "chatcmpl-1", object: "chat.completion", model: "gpt-4o", choices, usage } };
  }

  end(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

async function body(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const piece of request.setEncoding("utf8")) text += piece as string;
  return text;
}

// An agent that does as it is told: `say …`, `slow …`, `locate`, `mail`, `fail`.

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server as Listener } from "node:http";
import type { AddressInfo } from "node:net";
import type { Server } from "../harness/server.js";
import { until } from "../harness/until.js";

/** The input of a run. */
export interface Input {
  readonly threadId: string;
  readonly runId: string;
  readonly messages: readonly { readonly id: string; readonly role: string; readonly content?: string }[];
  readonly tools?: readonly { readonly name: string }[];
  readonly resume?: readonly { readonly payload: { readonly approved: boolean } }[];
  readonly forwardedProps?: unknown;
}

type Event = { readonly type: string; readonly [member: string]: unknown };

export class ScriptedAgent {
  /** The inputs so far, newest last. */
  readonly inputs: Input[] = [];
  /** Answers that wait in the middle, by their word. */
  readonly #waiting = new Map<string, () => void>();
  readonly #listener: Listener;

  /** Starts the agent, and registers it under the name `scripted`. */
  static async start(server: Server): Promise<ScriptedAgent> {
    const agent = new ScriptedAgent();
    await once(agent.#listener.listen(0, "127.0.0.1"), "listening");
    const url = `http://127.0.0.1:${(agent.#listener.address() as AddressInfo).port}/`;
    await server.request("PUT", "/v1/agents/scripted", { body: { url } });
    return agent;
  }

  private constructor() {
    this.#listener = createServer(async (request, response) => {
      const body: Buffer[] = [];
      for await (const piece of request) body.push(piece as Buffer);
      const input = JSON.parse(Buffer.concat(body).toString()) as Input;
      this.inputs.push(input);
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      for await (const event of this.#script(input)) {
        if (response.destroyed) return;
        response.write(`data: ${JSON.stringify(event)}\n\n`);
      }
      response.end();
    });
  }

  /** The inputs of a thread. */
  of(threadId: string): Input[] {
    return this.inputs.filter((input) => input.threadId === threadId);
  }

  /** Lets a slow answer go on, once it waits. */
  async goOn(word: string): Promise<void> {
    (await until("an answer that waits", () => this.#waiting.get(word)))!();
  }

  end(): void {
    this.#listener.close();
    this.#listener.closeAllConnections();
  }

  async *#script({ threadId, runId, messages, resume }: Input): AsyncGenerator<Event> {
    const messageId = randomUUID();
    const finished = { type: "RUN_FINISHED", threadId, runId };
    const said = (...words: string[]): Event[] => [
      { type: "TEXT_MESSAGE_START", messageId, role: "assistant" },
      ...words.map((delta) => ({ type: "TEXT_MESSAGE_CONTENT", messageId, delta })),
      { type: "TEXT_MESSAGE_END", messageId },
    ];
    const called = (toolCallId: string, toolCallName: string, args: unknown): Event[] => [
      { type: "TOOL_CALL_START", toolCallId, toolCallName },
      { type: "TOOL_CALL_ARGS", toolCallId, delta: JSON.stringify(args) },
      { type: "TOOL_CALL_END", toolCallId },
    ];
    yield { type: "RUN_STARTED", threadId, runId };
    const { role, content = "" } = messages.at(-1)!;
    const [verb, ...rest] = content.split(" ");
    if (resume?.length) {
      yield* said(resume[0]!.payload.approved ? "Sent." : "Not sent.");
    } else if (role === "tool") {
      yield* said(`You are in ${content}.`);
    } else if (verb === "say") {
      yield* said(...rest.map((word, index) => (index === 0 ? word : ` ${word}`)));
    } else if (verb === "slow") {
      const [begin, middle, last] = said("half ", "whole");
      yield begin!;
      yield middle!;
      await new Promise<void>((resolve) => this.#waiting.set(rest.join(" "), resolve));
      yield last!;
      yield { type: "TEXT_MESSAGE_END", messageId };
    } else if (verb === "locate") {
      yield* called(`locate-${messageId}`, "locate", {});
    } else if (verb === "mail") {
      yield* called(`mail-${threadId}`, "mail", { to: "ann" });
      const interrupts = [{ id: `i-${threadId}`, reason: "tool_call", toolCallId: `mail-${threadId}` }];
      return yield { ...finished, outcome: { type: "interrupt", interrupts } };
    } else {
      return yield { type: "RUN_ERROR", message: "The agent cannot do that." };
    }
    yield finished;
  }
}

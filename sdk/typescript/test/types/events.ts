// Types of events, messages and options, as an application meets them: this file only has to compile. types.test.ts compiles it
// again with a wider union, where each expected error has to be missing.

import type { NewEvent, NewMessage, RunHandle, Thread, ThreadEvent, ThreadRef, Threadline } from "../../src/index.js";

export async function produces(run: RunHandle, thread: ThreadRef): Promise<void> {
  await run.append({ type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: "Hello" });
  // @ts-expect-error misspelled member
  await run.append({ type: "TEXT_MESSAGE_CHUNK", messageID: "m", delta: "Hello" });
  // @ts-expect-error misspelled required member
  await run.append({ type: "TEXT_MESSAGE_CONTENT", messageID: "m", delta: "Hello" });
  // @ts-expect-error misspelled type
  await run.append({ type: "TEXT_MESSAGE_CONTNET", messageId: "m", delta: "Hello" });
  // @ts-expect-error wrong kind of value
  await run.append({ type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: 5 });
  // @ts-expect-error missing member
  await run.append([{ type: "TOOL_CALL_START", toolCallId: "c" }]);
  // @ts-expect-error unknown role
  await thread.putRun("r", [{ type: "TEXT_MESSAGE_START", messageId: "m", role: "agent" }]);
  await thread.putRun("r", [
    { type: "CUSTOM", name: "progress", value: { percent: 1 } },
    { type: "app.note", text: "an event of the application's own" },
    { type: "TOOL_CALL_RESULT", messageId: "m", toolCallId: "c", content: [{ type: "text", text: "12 °C" }] },
  ]);
  interface Note {
    readonly type: "app.note";
    readonly text: string;
  }
  const note: Note = { type: "app.note", text: "" };
  const events: NewEvent[] = [note];
  await run.append(events);
}

export function reads(event: ThreadEvent): unknown {
  switch (event.type) {
    case "TEXT_MESSAGE_CONTENT": {
      const delta: string = event.delta;
      return delta;
    }
    case "RUN_FINISHED":
      return event.outcome?.type === "interrupt" ? event.outcome.interrupts[0]?.id : undefined;
    case "app.note":
      return event["text"];
    // @ts-expect-error misspelled type
    case "TEXT_MESSAGE_CONTNET":
      return undefined;
    default: {
      const type: string = event.type;
      return type;
    }
  }
}

export async function sends(thread: ThreadRef, client: Threadline): Promise<void> {
  const message: NewMessage = { role: "user", content: [{ type: "text", text: "Hi" }] };
  await thread.start({ agentId: "a", input: { messages: [message], tools: [{ name: "f", description: "" }] } });
  // @ts-expect-error unknown role
  await thread.start({ agentId: "a", input: { messages: [{ role: "human", content: "Hi" }] } });
  // @ts-expect-error misspelled member
  await thread.start({ agentId: "a", input: { message: [message] } });
  // @ts-expect-error a listener without onError would not learn that following has ended
  thread.follow({ onItem: () => {} });
  // @ts-expect-error as in a thread
  client.followFeed({ onItem: () => {} });
  const { messages, state } = await thread.messages().then(async (page) => ({ ...page, ...(await thread.state()) }));
  for (const shown of messages) if (shown.role === "tool") shown.toolCallId satisfies string;
  // @ts-expect-error the state has no known type
  state.parcel;
}

export const plan = (thread: Thread): unknown => thread.metadata["plan"];

import OpenAI from "openai";
import type { ResponseStreamEvent } from "openai/resources/responses/responses";
import { useEffect, useMemo, useRef, useState } from "react";
import { Panel } from "./Panel.tsx";
import { type Activity, type Line, linesOf } from "./thread.ts";

type Props = { server: string; threadId: string; agentId: string; activity: Activity };

/** Id of the response that stands for a run: base64url of the thread's id, a zero byte and the run's id. */
function responseId(threadId: string, runId: string): string {
  const bytes = new TextEncoder().encode(`${threadId}\0${runId}`);
  const base64 = btoa(String.fromCharCode(...bytes));
  return `resp_${base64.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

/** OpenAI's client: the items of the conversation, and the stream of the response that is in progress. */
export function OpenAi({ server, threadId, agentId, activity }: Props) {
  const conversation = `conv_${threadId}`;
  const client = useMemo(
    // The key of a development server is any text, and no secret.
    () => new OpenAI({ baseURL: `${server}/openai/v1`, apiKey: "none", dangerouslyAllowBrowser: true }),
    [server],
  );
  const [items, setItems] = useState<Line[]>([]);
  const [answer, setAnswer] = useState("");
  const [error, setError] = useState<string>();
  const streaming = useRef(false);

  async function read(events: AsyncIterable<ResponseStreamEvent>) {
    for await (const event of events) {
      if (event.type === "response.created") setAnswer("");
      if (event.type === "response.output_text.delta") setAnswer((text) => text + event.delta);
    }
  }
  async function list() {
    const found: { role: string; content: unknown }[] = [];
    for await (const item of client.conversations.items.list(conversation, { order: "asc", limit: 100 })) {
      if (item.type === "message") found.push({ role: item.role, content: item.content });
    }
    return linesOf(found);
  }
  /** Lists the items, reads the stream, and lists them again: one at a time. */
  async function look(open: () => Promise<AsyncIterable<ResponseStreamEvent> | undefined>) {
    if (streaming.current) return;
    streaming.current = true;
    try {
      const events = await open();
      if (events) {
        await read(events);
        setItems(await list());
      }
      setAnswer("");
      setError(undefined);
    } catch (error) {
      setError(String(error));
    } finally {
      streaming.current = false;
    }
  }
  useEffect(() => {
    void look(async () => {
      const all = await list();
      if (!activity.runId) return void setItems(all);
      // The stream of a response has its answer from the beginning.
      setItems(all.slice(0, all.findLastIndex(({ role }) => role === "user") + 1));
      return client.responses.retrieve(responseId(threadId, activity.runId), { stream: true });
    });
  }, [client, activity]);
  const send = (text: string) =>
    void look(async () => {
      setItems((before) => [...before, { role: "user", text }]);
      return client.responses.create({ model: agentId, conversation, input: text, stream: true });
    });
  const lines = answer ? [...items, { role: "assistant" as const, text: answer }] : items;
  return <Panel name="OpenAI" lines={lines} error={error} send={send} />;
}

import { useStream } from "@langchain/react";
import { useEffect, useRef, useState } from "react";
import { Panel } from "./Panel.tsx";
import { type Activity, linesOf } from "./thread.ts";

type Props = { server: string; threadId: string; agentId: string; activity: Activity };
type ChatProps = Omit<Props, "activity"> & { busy: { current: boolean } };

const ROLES: Record<string, string> = { human: "user", ai: "assistant" };

/** `useStream`: opens no stream for an idle thread, so it is mounted again when another client has started a run. */
export function LangGraph({ activity, ...props }: Props) {
  const busy = useRef(false);
  const [mount, setMount] = useState(0);
  useEffect(() => {
    if (!busy.current) setMount((mount) => mount + 1);
  }, [activity]);
  return <Chat key={mount} {...props} busy={busy} />;
}

function Chat({ server, threadId, agentId, busy }: ChatProps) {
  const stream = useStream({
    apiUrl: `${server}/langgraph`,
    assistantId: agentId,
    threadId,
    // Enough for a restart of the server.
    maxReconnectAttempts: 100,
    reconnectDelayMs: () => 500,
  });
  useEffect(() => {
    busy.current = stream.isLoading;
  }, [stream.isLoading]);
  const lines = linesOf(
    stream.messages.map((message) => ({ role: ROLES[message.getType()] ?? "", content: message.content })),
  );
  const error = stream.error == null ? undefined : String(stream.error);
  const send = (text: string) => void stream.submit({ messages: [{ type: "human", content: text }] });
  return <Panel name="LangGraph" lines={lines} error={error} send={send} />;
}

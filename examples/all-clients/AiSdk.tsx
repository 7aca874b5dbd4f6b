import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, type UIMessage } from "ai";
import { useEffect, useMemo } from "react";
import { Panel } from "./Panel.tsx";
import { type Activity, linesOf } from "./thread.ts";

type Props = { server: string; threadId: string; agentId: string; activity: Activity };

/** `useChat`: loads the chat, and resumes the stream of the active run, whoever started it. */
export function AiSdk({ server, threadId, agentId, activity }: Props) {
  const api = `${server}/ai/${agentId}`;
  const transport = useMemo(() => new DefaultChatTransport({ api }), [api]);
  const { messages, status, error, sendMessage, setMessages, clearError, resumeStream } = useChat({
    id: threadId,
    transport,
  });
  useEffect(() => {
    if (status === "submitted" || status === "streaming") return;
    let stale = false;
    const load = async () => {
      const response = await fetch(`${api}/${encodeURIComponent(threadId)}`);
      if (stale || !response.ok) return;
      const chat = (await response.json()) as { messages: UIMessage[]; activeRunId: string | null };
      setMessages(chat.messages);
      clearError();
      if (chat.activeRunId) await resumeStream();
    };
    // Without a server there is nothing to load: the next connection changes the activity.
    load().catch(() => {});
    return () => void (stale = true);
  }, [api, threadId, activity, status]);
  const lines = linesOf(
    messages.map(({ role, parts }) => ({ role, content: parts.filter((part) => part.type === "text") })),
  );
  return <Panel name="AI SDK" lines={lines} error={error?.message} send={(text) => void sendMessage({ text })} />;
}

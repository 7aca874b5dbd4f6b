import { HttpAgent, type Message } from "@ag-ui/client";
import { useEffect, useMemo, useState } from "react";
import { Panel } from "./Panel.tsx";
import { type Activity, type Line, linesOf } from "./thread.ts";

type Props = { server: string; threadId: string; agentId: string; activity: Activity };

/** AG-UI's HttpAgent: loads the messages, and follows a run of another client by requesting it under its id. */
export function AgUi({ server, threadId, agentId, activity }: Props) {
  const agent = useMemo(
    () => new HttpAgent({ url: `${server}/agui/${agentId}`, threadId }),
    [server, agentId, threadId],
  );
  const [lines, setLines] = useState<Line[]>([]);
  const [error, setError] = useState<string>();
  const run = (runId?: string) =>
    agent.runAgent(runId ? { runId } : {}).then(
      () => setError(undefined),
      (error: unknown) => setError(String(error)),
    );
  useEffect(() => {
    const shown = agent.subscribe({ onMessagesChanged: ({ messages }) => setLines(linesOf(messages)) });
    return () => shown.unsubscribe();
  }, [agent]);
  useEffect(() => {
    if (agent.isRunning) return;
    let stale = false;
    const load = async () => {
      const response = await fetch(`${server}/v1/threads/${encodeURIComponent(threadId)}/messages`);
      if (stale || agent.isRunning || !response.ok) return;
      const { messages } = (await response.json()) as { messages: Message[] };
      // The response to a run that is under way has it from its beginning.
      const asked = messages.findLastIndex(({ role }) => role === "user");
      agent.setMessages(activity.runId ? messages.slice(0, asked + 1) : messages);
      setError(undefined);
      if (activity.runId) await run(activity.runId);
    };
    load().catch((error: unknown) => setError(String(error)));
    return () => void (stale = true);
  }, [agent, activity]);
  const send = (text: string) => {
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
    void run();
  };
  return <Panel name="AG-UI" lines={lines} error={error} send={send} />;
}

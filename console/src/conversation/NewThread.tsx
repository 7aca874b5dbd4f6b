import { ArrowLeft } from "lucide-react";
import { useEffect, useMemo, useState } from "react";
import { useThreadline } from "threadline/react";
import { READ_ONLY, useMayWrite } from "../rights.ts";
import { go, href } from "../route.ts";
import { Logo } from "../parts/Logo.tsx";
import { useNotices } from "../parts/notices.tsx";
import { preferred, rememberAgent, useAgents } from "./agents.ts";
import { Composer } from "./Composer.tsx";
import { newId } from "./id.ts";
import { refusalOf } from "./refusal.ts";

/** What shows the most of what there is, by what the demo listens to. */
const EXAMPLES: readonly (readonly [string, string])[] = [
  ["Think, call a tool, keep a plan", "What do you make of this sentence?"],
  ["Write 2,000 tokens: reload, or open a second tab", "Write me a long answer"],
  ["Ask for an approval, and wait", "Please approve my travel plans"],
  ["Fail in the middle of a sentence", "Show me an error"],
];

/** A thread that is about to begin: which agent, and the first message. */
export function NewThread({ agentId: wished }: { readonly agentId: string | undefined }) {
  const client = useThreadline();
  const { fail } = useNotices();
  const mayWrite = useMayWrite();
  const agents = useAgents();
  const [chosen, setChosen] = useState<string>();

  useEffect(() => {
    document.title = "New thread — Threadline";
    return () => void (document.title = "Threadline");
  }, []);
  const agentId = chosen ?? (agents && preferred(agents, wished));
  // A try with another agent makes another thread.
  const threadId = useMemo(newId, [agentId]);
  const isDemo = agents?.find((agent) => agent.agentId === agentId)?.kind === "demo";

  const send = async (text: string) => {
    if (agentId === undefined) return;
    rememberAgent(agentId);
    // Both can be repeated: the ids are made here.
    await client.threads.create({ threadId, agentId });
    const messages = [{ id: `${threadId}-1`, role: "user", content: text } as const];
    await client.thread(threadId).start({ runId: `${threadId}-1`, agentId, input: { messages } });
    go({ name: "thread", threadId }, { replace: true });
  };
  return (
    <>
      <header className="pane-header">
        <a className="icon-button only-narrow" href={href({ name: "home" })} aria-label="Back to the threads">
          <ArrowLeft />
        </a>
        <h1 className="pane-title">New thread</h1>
      </header>
      <div className="new-thread">
        <Logo size={44} />
        <h2>What is it about?</h2>
        {agents?.length === 0 ? (
          <p>No agent is available to start a run.</p>
        ) : (
          <p>Every event is stored. You can close the page at any time: the run continues.</p>
        )}
        {isDemo && (
          <ul className="examples" aria-label="Examples for the demo agent">
            {EXAMPLES.map(([what, text]) => (
              <li key={text}>
                <button
                  type="button"
                  disabled={!mayWrite}
                  onClick={() => void send(text).catch((error) => fail(refusalOf(error)))}
                >
                  <strong>{text}</strong>
                  <span>{what}</span>
                </button>
              </li>
            ))}
          </ul>
        )}
      </div>
      <Composer
        threadId="new"
        agents={agents}
        agentId={agentId}
        onAgent={setChosen}
        onSend={send}
        blocked={mayWrite ? (agents?.length === 0 ? "No agent is configured." : undefined) : READ_ONLY}
        hasFocus
      />
    </>
  );
}

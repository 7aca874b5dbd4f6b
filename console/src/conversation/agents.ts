import { useEffect, useState } from "react";
import type { Agent, Threadline } from "threadline";
import { useThreadline } from "threadline/react";

const asked = new WeakMap<Threadline, Promise<readonly Agent[]>>();

/** The agents that runs can be handed to; undefined until they are known, none where one may not know them. */
export function useAgents(): readonly Agent[] | undefined {
  const client = useThreadline();
  const [known, setKnown] = useState<{ client: Threadline; agents: readonly Agent[] }>();
  useEffect(() => {
    let isLeft = false;
    let answer = asked.get(client);
    if (!answer) {
      answer = client.agents.list();
      asked.set(client, answer);
      // The next caller requests the list again.
      answer.catch(() => asked.delete(client));
    }
    const show = (agents: readonly Agent[]) => isLeft || setKnown({ client, agents });
    answer.then(show, () => show([]));
    return () => void (isLeft = true);
  }, [client]);
  return known?.client === client ? known.agents : undefined;
}

const LAST = "threadline.agent";

/** The agent that was chosen last on this device. */
export function lastAgent(): string | null {
  return localStorage.getItem(LAST);
}

export function rememberAgent(agentId: string): void {
  localStorage.setItem(LAST, agentId);
}

/** The agent to begin with: the one wished for, else the last one, else the demo, else any. */
export function preferred(agents: readonly Agent[], wished: string | undefined): string | undefined {
  const candidates = [wished, lastAgent(), "demo", agents[0]?.agentId];
  return candidates.find((id) => agents.some(({ agentId }) => agentId === id)) ?? undefined;
}

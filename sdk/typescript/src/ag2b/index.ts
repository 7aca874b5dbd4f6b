import { Threadline, type ThreadlineOptions } from "../index.js";
import { Binding } from "./binding.js";
import { ThreadHistory } from "./history.js";
import type { Agent } from "./types.js";

export { RunInFlightError, ThreadHistory } from "./history.js";
export type * from "./types.js";

/** Which thread an agent's history is kept in. */
export interface Ag2bOptions extends Partial<ThreadlineOptions> {
  /** A client that is there already; else one is made of the other options, of which `url` is needed then. */
  readonly client?: Threadline;
  /** The thread; made if it does not exist. */
  readonly threadId: string;
  /** The agent that a new thread is made for. */
  readonly agentId?: string;
  /** Hears of what could not be saved. It is tried again, unless the server will never have it. */
  readonly onError?: (error: unknown) => void;
}

/**
 * A plugin for an agent of AG2B: `const off = await agent.use(threadline({ url, token, threadId }))`. It gives the agent the
 * thread's history, saves and streams what is said, and takes over between chats what others say. Rejects if the history cannot
 * be loaded. A chat begun while another run is active in the thread rejects with a problem `run-active`; `reset` and `restore`
 * of the agent's history throw while a chat is under way.
 */
export function threadline(options: Ag2bOptions): (agent: Agent) => Promise<() => void> {
  return async (agent) => {
    const { threadId, agentId, onError = () => {} } = options;
    const client = clientOf(options);
    const history = new ThreadHistory(client, threadId, onError);
    await history.open(agentId);
    const binding = new Binding(agent, client, threadId, history, onError);
    binding.bind();
    return () => {
      void binding.close().then(() => {
        if (!options.client) client.close();
      });
    };
  };
}

/** A thread's conversation in the style of AG2B's history, loaded and following the log. */
export async function threadHistory(options: Ag2bOptions): Promise<ThreadHistory> {
  const history = new ThreadHistory(clientOf(options), options.threadId, options.onError);
  await history.open(options.agentId);
  return history;
}

function clientOf({ client, url = "", ...options }: Ag2bOptions): Threadline {
  return client ?? new Threadline({ ...options, url });
}

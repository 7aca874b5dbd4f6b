import { Threadline, type ThreadlineOptions } from "../index.js";
import { Binding } from "./binding.js";
import { ThreadHistory } from "./history.js";
import type { Agent } from "./types.js";

export { RunInFlightError, ThreadHistory } from "./history.js";
export type * from "./types.js";

/** Options of an agent's history: its thread and the client. */
export interface Ag2bOptions extends Partial<ThreadlineOptions> {
  /** An existing client. By default a client is created from the other options, of which `url` is required then. */
  readonly client?: Threadline;
  /** The thread; created if it does not exist. */
  readonly threadId: string;
  /** The agent of a newly created thread. */
  readonly agentId?: string;
  /** Called when messages could not be saved. Saving is retried, unless the server has refused the messages. */
  readonly onError?: (error: unknown) => void;
}

/**
 * Creates a plugin for an AG2B agent: `const off = await agent.use(threadline({ url, token, threadId }))`. The agent
 * receives the thread's history; its messages are saved and streamed; messages of other producers are applied between its
 * chats. Rejects if the history cannot be loaded. A chat that starts while another run is active in the thread rejects with
 * a `run-active` problem; `reset` and `restore` of the agent's history throw while a chat is active.
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

/** Returns a thread's conversation with the interface of AG2B's history, loaded and following the log. */
export async function threadHistory(options: Ag2bOptions): Promise<ThreadHistory> {
  const history = new ThreadHistory(clientOf(options), options.threadId, options.onError);
  await history.open(options.agentId);
  return history;
}

function clientOf({ client, url = "", ...options }: Ag2bOptions): Threadline {
  return client ?? new Threadline({ ...options, url });
}

// Two agents in a network: one looks things up, the other writes the answer. Threadline only adds the history.

import { AgentResult, createAgent, createNetwork, createState, createTool, openai } from "@inngest/agent-kit";
import { threadlineHistory } from "threadline/agentkit";
import { z } from "zod";

const DELTA_MS = 40;

const lookUp = createTool({
  name: "look_up",
  description: "Finds what is known about a topic",
  parameters: z.object({ topic: z.string() }),
  handler: ({ topic }) => `${topic.length} letters are known about it`,
});

/** The chat, for a given server and model. */
export function createChat({ url, apiKey, model }) {
  const history = threadlineHistory({ url, apiKey, persistState: true });
  const defaultModel = openai(model);
  const researcher = createAgent({ name: "researcher", system: "You look things up.", tools: [lookUp] });
  const writer = createAgent({ name: "writer", system: "You answer with what was looked up." });
  const network = () =>
    createNetwork({
      name: "assistant",
      agents: [researcher, writer],
      defaultModel,
      history,
      router: ({ callCount }) => [researcher, writer][callCount],
    });

  // AgentKit has the whole text before it streams. A delay makes the streaming visible.
  const publish = async (chunk) => {
    await history.publish(chunk);
    if (chunk.event === "text.delta") await new Promise((resolve) => setTimeout(resolve, DELTA_MS));
  };

  return {
    /**
     * Sends a message to a thread. Without `results` the history is loaded from Threadline (server-authoritative); with
     * them the client supplies the history, and nothing is loaded (client-authoritative).
     */
    async say({ threadId, message, results }) {
      const known = results?.map((each) => restore(each));
      const state = createState({}, { threadId, ...(known && { results: known }) });
      const run = await network().run(message, { state, streaming: { publish, simulateChunking: true } });
      // The client continues with these results, whether they were loaded or sent.
      return { results: run.state.results.map(plain), loaded: known === undefined };
    },

    /** The results of a thread, for a client that keeps them (the first step of the hybrid pattern). */
    async results(threadId) {
      const state = createState({}, { threadId });
      return (await history.get({ threadId, state, input: "", network: network() })).map(plain);
    },
  };
}

function plain({ agentName, output, toolCalls, createdAt, id }) {
  return { agentName, output, toolCalls, createdAt: createdAt.toISOString(), id };
}

function restore({ agentName, output, toolCalls, createdAt, id }) {
  return new AgentResult(agentName, output, toolCalls, new Date(createdAt), undefined, undefined, undefined, id);
}

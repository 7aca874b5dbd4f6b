// An agent that follows the instruction in the user's message, word by word:
//
//   say NAME COUNT PACE   NAME1 NAME2 … NAMECOUNT, PACE milliseconds apart
//   fail NAME COUNT PACE  like `say`, then throws
//   all NAME COUNT PACE   a state, words, a call of its own tool with its result, changes of the state, words
//   front NAME            calls the front-end tool `pick`; writes its result when it comes
//
// A request for a title of the conversation is answered with one built from the user's words.

import { setTimeout as sleep } from "node:timers/promises";
import { load } from "./packages.mjs";

const { AbstractAgent } = await load("@ag-ui/client");
const { Observable } = await load("rxjs");

export class ScriptedAgent extends AbstractAgent {
  run(input) {
    return new Observable((observer) => {
      const stop = new AbortController();
      this.stop = stop;
      const send = async () => {
        for await (const event of play(input)) {
          if (stop.signal.aborted) break;
          observer.next(event);
        }
        observer.complete();
      };
      send().catch((error) => observer.error(error));
      return () => stop.abort();
    });
  }

  abortRun() {
    this.stop?.abort();
  }

  clone() {
    const { agentId, description, threadId } = this;
    const copy = new ScriptedAgent({ agentId, description, threadId });
    copy.setMessages([...this.messages]);
    return copy;
  }
}

/** The agent's text for `say NAME COUNT` and `fail NAME COUNT`; `all NAME COUNT` has it twice. */
export const words = (name, count) => Array.from({ length: count }, (_, index) => `${name}${index + 1} `).join("");

export const title = (text) => `About ${text.split(" ")[1]}`;

const text = ({ content }) => (typeof content === "string" ? content : content.map((part) => part.text ?? "").join(""));

export async function* play({ threadId, runId, messages, state }) {
  yield { type: "RUN_STARTED", threadId, runId };
  yield* answer({ runId, messages, state });
  yield { type: "RUN_FINISHED", threadId, runId };
}

async function* answer({ runId, messages, state }) {
  const user = messages.findLast((message) => message.role === "user");
  const asked = text(user);
  if (messages.some((message) => message.role === "system" && text(message).includes("titles"))) {
    yield* speak(`${runId}-title`, [JSON.stringify({ title: title(asked.match(/user: (.*)/)[1]) })], 0);
    return;
  }
  const [what, name, count = "5", pace = "2"] = asked.split(" ");
  const deltas = words(name, Number(count)).match(/\S+ /g) ?? [];
  if (what === "say" || what === "fail") {
    yield* speak(`${runId}-text`, deltas, Number(pace));
    if (what === "fail") throw new Error(`${name} was told to fail`);
  } else if (what === "all") {
    yield* all(runId, name, deltas, Number(pace), state);
  } else if (what === "front") {
    yield* front(runId, name, messages);
  } else {
    throw new Error(`what is "${asked}"?`);
  }
}

async function* speak(messageId, deltas, pace) {
  yield { type: "TEXT_MESSAGE_START", messageId, role: "assistant" };
  for (const delta of deltas) {
    await sleep(pace);
    yield { type: "TEXT_MESSAGE_CONTENT", messageId, delta };
  }
  yield { type: "TEXT_MESSAGE_END", messageId };
}

async function* all(runId, name, deltas, pace, state) {
  const tool = { toolCallId: `${runId}-tool` };
  yield { type: "STATE_SNAPSHOT", snapshot: { ...state, name, steps: ["begun"] } };
  yield* speak(`${runId}-text`, deltas, pace);
  yield { type: "TOOL_CALL_START", ...tool, toolCallName: "lookup", parentMessageId: `${runId}-text` };
  for (const delta of ['{"what":', `"${name}"`, "}"]) yield { type: "TOOL_CALL_ARGS", ...tool, delta };
  yield { type: "TOOL_CALL_END", ...tool };
  yield { type: "TOOL_CALL_RESULT", ...tool, messageId: `${runId}-result`, role: "tool", content: `all about ${name}` };
  yield { type: "STATE_DELTA", delta: [{ op: "add", path: "/steps/-", value: "looked up" }] };
  yield* speak(`${runId}-end`, deltas, pace);
  yield { type: "STATE_DELTA", delta: [{ op: "remove", path: "/steps/0" }] };
}

async function* front(runId, name, messages) {
  const last = messages.at(-1);
  if (last.role === "tool") {
    yield* speak(`${runId}-text`, [`${name} `, "was ", "answered: ", text(last)], 2);
    return;
  }
  const tool = { toolCallId: `${runId}-pick` };
  yield { type: "TOOL_CALL_START", ...tool, toolCallName: "pick", parentMessageId: `${runId}-call` };
  yield { type: "TOOL_CALL_ARGS", ...tool, delta: JSON.stringify({ from: name }) };
  yield { type: "TOOL_CALL_END", ...tool };
}

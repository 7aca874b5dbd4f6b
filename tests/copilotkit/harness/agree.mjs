// Invariants of every case: all tabs have the same conversation, and no tab missed an event or received one twice.

import assert from "node:assert/strict";
import { direct } from "./packages.mjs";
import { until } from "./until.mjs";

/** The ids of events. Events that Threadline wrote itself are sent with an id that ends in their seq. */
const ids = (events) =>
  events.map(({ metadata }, index) => {
    const id = metadata?.cpki_event_id ?? `tl-${index + 1}`;
    return id.replace(/^tl-.*-(\d+)$/, "tl-$1");
  });

/** A copy as JSON has it: without undefined members. */
export const plain = (value) => JSON.parse(JSON.stringify(value));

/** Messages without the members that only some releases keep. */
const comparable = (messages) =>
  plain(messages).map(({ id, role, content = null, toolCallId, toolCalls }) => {
    const calls = toolCalls?.map(({ id, function: { name, arguments: given } }) => ({ id, name, given }));
    return { id, role, content, toolCallId, calls };
  });

/** Waits until the last run of a chat's thread has ended; returns the log. */
export async function ended(world, chat) {
  let log = [];
  const terminal = async () => {
    log = await world.log(chat);
    return ["RUN_FINISHED", "RUN_ERROR"].includes(log.at(-1)?.type);
  };
  const stand = () => `${JSON.stringify(log.slice(-3))} ${chat.client.errors.map(({ error }) => error.message)}`;
  await until(`the end of the run in ${chat.threadId}`, terminal, stand);
  return log;
}

/**
 * Asserts that this chat received every event of its thread, once and in order, and shows its messages. (Where Threadline is
 * the runtime itself, events have no ids, and a tab that connects later receives earlier text in fewer events: there only the
 * messages are compared.)
 */
export async function whole(world, chat, said) {
  const log = await ended(world, chat);
  if (!direct) {
    assert.deepEqual(ids(chat.events), ids(log));
    assert.equal(new Set(ids(log)).size, log.length, "every event has an id of its own");
  }
  assert.deepEqual(comparable(chat.messages), comparable((await world.native(chat, "messages")).messages));
  if (said) assert.deepEqual(chat.said, said);
  return log;
}

/** Asserts that a tab that opens the thread now has all of it, as this chat and Threadline's own API have it. */
export async function reloaded(world, chat, { messages = true } = {}) {
  const fresh = (await world.open(chat.client.user, chat.client.agentId)).chat(chat.threadId);
  await fresh.connect();
  await whole(world, fresh);
  // The core reports an old error again when it replays the history that contains it.
  assert.deepEqual(fresh.client.errors.filter(({ code }) => code !== "agent_run_error_event"), []);
  fresh.client.errors.length = 0;
  if (messages) {
    assert.deepEqual(plain(fresh.messages), plain(chat.messages));
    assert.deepEqual(plain(fresh.agent.state), plain(chat.agent.state));
  }
  return fresh;
}

// The page: threads and messages are followed from Threadline, whichever client changes them. Messages are sent to the
// chat's own server, which runs the network.

import { Threadline } from "threadline";
import { Conversation } from "threadline/conversation";

const find = (selector) => document.querySelector(selector);
const { url } = await (await fetch("/settings")).json();
const threadline = new Threadline({ url });

/** The list, by thread id. */
const threads = new Map();
let current = location.hash.slice(1) || crypto.randomUUID();
let opened;
/** The results of the current thread, for the client-authoritative pattern; `undefined` until they are loaded. */
let held;

// -- the list of threads

async function followThreads() {
  const page = await threadline.threads.list({ limit: 100 });
  for (const thread of page.threads) threads.set(thread.threadId, thread);
  showThreads();
  if (threads.has(current)) void open(current);
  // The list and the feed after its cursor are complete together.
  for await (const item of threadline.feed({ after: page.feedCursor, epoch: page.feedEpoch })) {
    if (item.type !== "entries") continue;
    for (const { threadId, thread } of item.entries) {
      if (thread) threads.set(threadId, thread);
      else threads.delete(threadId);
      if (threadId === current) void open(current);
    }
    showThreads();
  }
}

function showThreads() {
  const newest = (thread) => thread.lastRunAt ?? thread.createdAt;
  const list = [...threads.values()].filter((thread) => !thread.archived);
  list.sort((one, other) => (newest(one) < newest(other) ? 1 : -1));
  find("#threads").replaceChildren(
    ...list.map((thread) => {
      const button = document.createElement("button");
      button.textContent = thread.name ?? "Untitled";
      button.setAttribute("aria-current", String(thread.threadId === current));
      button.onclick = () => choose(thread.threadId);
      return button;
    }),
  );
}

function choose(threadId) {
  opened?.close();
  opened = undefined;
  held = undefined;
  current = threadId;
  location.hash = threadId;
  showMessages([]);
  showStatus("");
  showThreads();
  if (threads.has(threadId)) void open(threadId);
}

// -- the open thread

async function open(threadId) {
  if (opened) return;
  const mine = { close: () => {} };
  opened = mine;
  const thread = threadline.thread(threadId);
  const { tail, epoch, activeRun } = await thread.get();
  // Between two runs the messages are complete; an active run is read from its start.
  const at = activeRun ? activeRun.firstSeq - 1 : tail;
  const conversation = new Conversation(await thread.messages({ at, epoch }));
  if (opened !== mine) return;
  showMessages(conversation.messages);
  const followed = thread.follow({
    after: at,
    epoch,
    onItem(item) {
      if (item.type !== "events") return;
      for (const { events } of item.batches) {
        conversation.apply(events);
        for (const { type } of events) {
          if (type === "RUN_STARTED") showStatus("working …");
          if (type === "RUN_FINISHED") showStatus("");
          if (type === "RUN_ERROR") showStatus("failed");
        }
      }
      showMessages(conversation.messages);
    },
    onError: (error) => showStatus(error.message),
  });
  mine.close = () => followed.close();
}

function showMessages(messages) {
  const shown = messages.flatMap((message) => [
    ...(message.content ? [[message.role, message.content]] : []),
    ...(message.toolCalls ?? []).map((call) => ["tool", `${call.function.name}(${call.function.arguments})`]),
  ]);
  find("#messages").replaceChildren(
    ...shown.map(([role, text]) => {
      const p = document.createElement("p");
      p.className = role;
      p.textContent = text;
      return p;
    }),
  );
  find("#messages").scrollTo(0, find("#messages").scrollHeight);
}

function showStatus(text) {
  find("#status").textContent = text;
}

// -- sending messages

find("form").onsubmit = async (event) => {
  event.preventDefault();
  const content = find("[name=message]").value.trim();
  if (!content) return;
  find("form").reset();
  const threadId = current;
  location.hash = threadId;
  const message = { id: crypto.randomUUID(), role: "user", content };
  const isNew = !threads.has(threadId);
  // AgentKit would create the thread as well, but the page could only open it after the feed reports it.
  if (isNew) await threadline.threads.create({ threadId, name: content.slice(0, 50) });
  void open(threadId);
  const clientHasIt = find("[name=pattern]:checked").value === "client";
  // The hybrid pattern: loaded once, then the client continues with its own results.
  if (clientHasIt && !isNew) held ??= await ask(`/results?threadId=${encodeURIComponent(threadId)}`);
  const results = clientHasIt ? (held ?? []) : undefined;
  const said = await ask("/say", { threadId, message, results });
  if (said && threadId === current) {
    held = said.results;
    find("#messages").dataset.history = said.loaded ? "loaded by the server" : `${results.length} sent by the client`;
  }
};

async function ask(path, body) {
  const options = body && { method: "POST", body: JSON.stringify(body) };
  const response = await fetch(path, options);
  const answer = await response.json();
  if (response.ok) return answer;
  showStatus(answer.error);
  return undefined;
}

find("#new").onclick = () => {
  choose(crypto.randomUUID());
  find("[name=message]").focus();
};
find("#rename").onclick = () => {
  const name = prompt("Name", threads.get(current)?.name ?? "");
  if (name) void threadline.thread(current).rename(name);
};
find("#archive").onclick = async () => {
  await threadline.thread(current).archive();
  choose(crypto.randomUUID());
};

choose(current);
find("[name=message]").disabled = false;
find("[name=message]").focus();
await followThreads();

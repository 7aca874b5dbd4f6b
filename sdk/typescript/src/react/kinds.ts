// The kinds of stores. A page loads the code of those whose hooks it uses.

import { trimmed } from "../search.js";
import { AgentsStore } from "./agents.js";
import { type InboxOptions, InboxStore } from "./inbox.js";
import type { Initial } from "./initial.js";
import { type ThreadListOptions, ThreadListStore } from "./list.js";
import { type Kind, sharedStore } from "./shared.js";
import { ThreadStore } from "./thread.js";

interface ThreadOptions {
  readonly threadId: string;
  /** What the server has rendered. */
  readonly initial?: Initial | undefined;
}

export const THREADS: Kind<ThreadOptions, ThreadStore> = {
  key: ({ threadId }) => threadId,
  make: (client, feed, { threadId, initial }, onClose) => {
    const storeOf = (threadId: string) => sharedStore(client, THREADS, { threadId });
    return new ThreadStore(client, feed, threadId, { onClose, initial, storeOf });
  },
};

export const LISTS: Kind<ThreadListOptions, ThreadListStore> = {
  key: ({ agentId, includeArchived = false, limit, search = "" }) =>
    JSON.stringify([agentId, includeArchived, limit, trimmed(search)]),
  make: (client, feed, options, onClose) => new ThreadListStore(client, feed, options, { onClose }),
};

export const INBOXES: Kind<InboxOptions, InboxStore> = {
  key: ({ agentId, limit }) => JSON.stringify([agentId, limit]),
  make: (client, feed, options, onClose) => new InboxStore(client, feed, options, { onClose }),
};

export const AGENTS: Kind<null, AgentsStore> = {
  key: () => "",
  make: (client, _feed, _options, onClose) => new AgentsStore(client, onClose),
};

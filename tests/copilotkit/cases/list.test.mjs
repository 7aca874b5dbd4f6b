// A user's list of threads, as `useThreads` has it: complete, in order, and the same in every tab.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { title } from "../harness/agent.mjs";
import "../harness/leave.mjs";
import { until } from "../harness/until.mjs";
import { World } from "../harness/world.mjs";
import { can, direct } from "../harness/packages.mjs";

const options = { timeout: 60_000 };

describe("the list of threads", { concurrency: true }, () => {
  let world;
  before(async () => (world = await World.start()));
  after(() => world?.end());

  /** Two tabs of a new user, each with a list. `shows` waits until the test holds for both lists. */
  const two = async (settings = {}) => {
    const here = await world.open();
    const there = await world.open(here.user);
    const lists = [await here.threads(settings), await there.threads(settings)];
    const shows = (what, test) => Promise.all(lists.map((list) => list.shows(what, test)));
    const close = () => lists.forEach((list) => list.close());
    return { here, there, lists, shows, close };
  };

  /** The ids of a page of the server's list, and the cursor of the next page. */
  const page = async (client, parameters = {}) => {
    const answer = await client.get(`/threads?${new URLSearchParams({ agentId: client.agentId, ...parameters })}`);
    const { threads, nextCursor } = await answer.json();
    return { threads: threads.map(({ id }) => id), nextCursor: nextCursor ?? null };
  };

  test("two tabs see threads created, changed and deleted", options, async () => {
    const { here, lists, shows, close } = await two();
    const chat = here.chat();
    await chat.say("say one 3 1");
    await shows("the new thread", (threads) => threads.length === 1 && threads[0].id === chat.threadId);
    const [list] = lists;
    await list.store.renameThread(chat.threadId, "a name");
    await shows("the name", ([thread]) => thread?.name === "a name");
    await list.store.archiveThread(chat.threadId);
    await shows("no thread in the archive", (threads) => threads.length === 0);
    if (can.unarchive) {
      await list.store.unarchiveThread(chat.threadId);
      await shows("the thread again", ([thread]) => thread?.name === "a name" && !thread.archived);
    }
    await list.store.deleteThread(chat.threadId);
    const second = here.chat();
    await second.say("say two 3 1");
    await shows("only the other", (threads) => threads.length === 1 && threads[0].id === second.threadId);
    assert.deepEqual(here.errors, []);
    const deleted = here.chat(chat.threadId);
    await deleted.connect();
    assert.deepEqual([deleted.said, here.errors], [[], []]);
    close();
  });

  test("archived threads are listed on request", options, async () => {
    const { here, lists, shows, close } = await two({ includeArchived: true });
    const chat = here.chat();
    await chat.say("say one 3 1");
    await shows("the new thread", (threads) => threads.length === 1);
    await lists[0].store.archiveThread(chat.threadId);
    await shows("it is archived", ([thread]) => thread?.archived);
    // A run of an archived thread does not bring it back to a list without archived threads.
    const hidden = await here.threads();
    assert.deepEqual(hidden.threads, []);
    const ran = lists[0].find(chat.threadId).lastRunAt;
    await chat.say("say two 3 1");
    await shows("the run", ([thread]) => thread?.archived && thread.lastRunAt > ran);
    assert.deepEqual(hidden.threads, []);
    hidden.close();
    close();
  });

  test("the newest run is first", options, async () => {
    const { here, shows, close } = await two();
    const chats = [];
    for (const name of ["a", "b", "c"]) {
      const chat = here.chat();
      await chat.say(`say ${name} 2 1`);
      chats.push(chat.threadId);
    }
    const order = (...expected) => (threads) => threads.map(({ id }) => id).join() === expected.join();
    const [a, b, c] = chats;
    await shows("c, b, a", order(c, b, a));
    await here.chat(a).say("say again 2 1");
    await shows("a, c, b", order(a, c, b));
    assert.deepEqual((await page(here)).threads, [a, c, b]);
    close();
  });

  test("pages of a long list", options, async () => {
    const client = await world.open();
    const made = [];
    for (const index of Array(5).keys()) {
      const chat = client.chat();
      await chat.say(`say page${index} 1 1`);
      made.unshift(chat.threadId);
    }
    for (let cursor, shown = 0; ; ) {
      const { threads, nextCursor } = await page(client, { limit: 2, ...(cursor && { cursor }) });
      assert.deepEqual(threads, made.slice(shown, shown + 2));
      shown += threads.length;
      cursor = nextCursor;
      if (shown === made.length) {
        assert.equal(cursor, null);
        break;
      }
    }
    // The list also receives recent changes, so it may have more threads than its pages.
    const list = await client.threads({ limit: 2 });
    for (let pages = 1; pages < 3; pages++) {
      assert.ok(list.store.getState().nextCursor);
      list.store.fetchNextPage();
      await list.settled();
    }
    assert.equal(list.store.getState().nextCursor, null);
    assert.deepEqual(list.threads.map(({ id }) => id), made);
    list.close();
  });

  test("threads of another agent or of another user are not listed", options, async () => {
    const { here, there, shows, lists, close } = await two();
    const user = here.user;
    await (await world.open()).chat().say("say stranger 2 1");
    await (await world.open(user, "other")).chat().say("say other 2 1");
    const mine = there.chat();
    await mine.say("say mine 2 1");
    // Older packages put every thread into the list that they are notified of.
    const [agent] = can.filter ? ["scripted"] : [undefined];
    const own = (threads) => threads.filter(({ agentId }) => !agent || agentId === agent);
    await shows("mine", (threads) => own(threads).some(({ id }) => id === mine.threadId));
    for (const list of lists) {
      assert.ok(list.threads.every(({ createdById }) => createdById === user));
      if (can.filter) assert.deepEqual(list.threads.map(({ id }) => id), [mine.threadId]);
    }
    assert.deepEqual((await page(here)).threads, [mine.threadId]);
    close();
  });

  test("another user's thread cannot be renamed, archived or deleted", options, async () => {
    const { here, shows, close } = await two();
    const chat = here.chat();
    await chat.say("say mine 3 1");
    const intruder = await (await world.open()).threads();
    await assert.rejects(intruder.store.renameThread(chat.threadId, "stolen"));
    await assert.rejects(intruder.store.archiveThread(chat.threadId));
    if (can.deleteFor) await assert.rejects(intruder.store.deleteThread(chat.threadId));
    await shows("mine as it was", ([thread]) => thread?.id === chat.threadId && thread.name !== "stolen" && !thread.archived);
    intruder.close();
    close();
  });

  test("the other tabs are notified of a run", { ...options, skip: !can.activity }, async () => {
    const { here, lists, close } = await two();
    const chat = here.chat();
    // The feed keeps the newest change of a thread only, so the run must not end before its start was seen.
    const run = chat.say("say busy 20000 5");
    const notified = (list, type) =>
      list.activity.some((notice) => notice.threadId === chat.threadId && notice.eventType === type && notice.runId);
    for (const list of lists) await until("the beginning", () => notified(list, "RUN_STARTED"));
    // A runtime that long-polls drops a stop that comes before the first text.
    await chat.hears("busy3 ");
    chat.stop();
    await run;
    for (const list of lists) {
      await until("the end", () => notified(list, "RUN_FINISHED"));
      const types = list.activity.filter(({ threadId }) => threadId === chat.threadId).map(({ eventType }) => eventType);
      assert.deepEqual(types, ["RUN_STARTED", "RUN_FINISHED"]);
    }
    close();
  });

  test("a list whose socket is cut continues with the changes that it missed", options, async () => {
    const apart = await World.start({ threadline: world.threadline });
    const client = await apart.open();
    const list = await client.threads();
    const elsewhere = await world.open(client.user);
    const cut = apart.proxy.cut("/client/websocket");
    const chat = elsewhere.chat();
    await chat.say("say missed 2 1");
    assert.equal(cut, 1);
    await list.shows("what it missed", (threads) => threads.some(({ id }) => id === chat.threadId));
    await (await elsewhere.threads()).store.renameThread(chat.threadId, "later");
    await list.shows("what came then", ([thread]) => thread?.name === "later");
    list.close();
    await apart.end();
  });
});

describe("names by Threadline", () => {
  let world;
  before(async () => (world = await World.start()));
  after(() => world?.end());

  test("a thread is named after its user's first words and can be renamed", options, async () => {
    const client = await world.open();
    const list = await client.threads();
    const chat = client.chat();
    await chat.say("say gardening 3 1");
    await list.shows("the name", ([thread]) => thread?.name === "Say gardening 3 1");
    assert.deepEqual(client.errors, []);
    await list.store.renameThread(chat.threadId, "My garden");
    await chat.say("say more 3 1");
    await list.shows("my own name", ([thread]) => thread?.name === "My garden");
    list.close();
  });
});

// The runtime itself asks its agent for names.
describe("names of threads", { skip: direct }, () => {
  let world;
  before(async () => (world = direct ? undefined : await World.start({ generateThreadNames: true })));
  after(() => world?.end());

  test("the runtime's name for a new thread is shown and can be changed", options, async () => {
    const client = await world.open();
    const list = await client.threads();
    const chat = client.chat();
    await chat.say("say gardening 3 1");
    await list.shows("the name", ([thread]) => thread?.name === title("say gardening"));
    assert.deepEqual(client.errors, []);
    await list.store.renameThread(chat.threadId, "My garden");
    await chat.say("say more 3 1");
    await list.shows("my own name", ([thread]) => thread?.name === "My garden");
    list.close();
  });
});

// CopilotKit's components for React in a real browser, in front of Threadline: through the Node runtime (VIA=runtime), or
// directly (VIA=direct).

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { words } from "../harness/agent.mjs";
import { Site } from "../harness/browser.mjs";
import "../harness/leave.mjs";
import { until } from "../harness/until.mjs";
import { direct } from "../harness/packages.mjs";
import { host, OPERATOR, Threadline } from "../harness/world.mjs";

const options = { timeout: 90_000 };
const tokens = new Map();
let threadline, runtime, site;

/** The page's settings: the address of its runtime, and the headers that identify its user. */
const settingsOf = (user) =>
  direct
    ? { runtimeUrl: `${threadline.url}/copilotkit`, agentId: "scripted", headers: { Authorization: `Bearer ${tokens.get(user)}` } }
    : { runtimeUrl: `${runtime.url}/api/copilotkit`, agentId: "scripted", headers: { "x-user": user } };

/** A new user, with a token. */
async function newUser() {
  const user = `user-${randomUUID()}`;
  tokens.set(user, await threadline.token(user));
  return user;
}

before(async () => {
  site = await Site.start(settingsOf);
  threadline = await Threadline.start("--allowed-origins", site.url);
  const platform = { apiUrl: threadline.url, wsUrl: threadline.url.replace("http", "ws"), apiKey: OPERATOR };
  if (!direct) runtime = await host({ platform });
});
after(async () => {
  await site?.end();
  await runtime?.end();
  await threadline?.end();
});

describe(direct ? "a page without a runtime" : "a page through its runtime", () => {
  test("two tabs show one chat, and an answer reaches both while it is written", options, async () => {
    const user = await newUser();
    const here = await site.open(user);
    await here.say("say first 10 2");
    await here.shows("say first 10 2", words("first", 10));
    const there = await site.open(user, here.threadId);
    await there.shows("say first 10 2", words("first", 10));
    await here.say("say second 150 40");
    await there.hears("second20 ");
    assert.ok(!(await there.said()).at(-1).endsWith("second150"), "while it is written");
    const all = ["say first 10 2", words("first", 10), "say second 150 40", words("second", 150)];
    await Promise.all([here.shows(...all), there.shows(...all)]);
    await there.say("say third 5 2");
    all.push("say third 5 2", words("third", 5));
    await Promise.all([here.shows(...all), there.shows(...all)]);
    await here.reload();
    await here.shows(...all);
    for (const tab of [here, there]) await tab.close();
  });

  test("a reload in the middle of a run, twice", options, async () => {
    const tab = await site.open(await newUser());
    await tab.say("say long 150 30");
    for (const word of ["long10 ", "long50 "]) {
      await tab.hears(word);
      await tab.reload();
    }
    await tab.hears("long60 ");
    await tab.shows("say long 150 30", words("long", 150));
    if (!direct) await tab.catchesUp();
    await tab.say("say next 5 2");
    await tab.shows("say long 150 30", words("long", 150), "say next 5 2", words("next", 5));
    await tab.close();
  });

  test("the live list shows new threads, names, archiving and deletions", options, async () => {
    const user = await newUser();
    const here = await site.open(user);
    const there = await site.open(user);
    await here.say("say one 3 2");
    await here.shows("say one 3 2", words("one", 3));
    const one = here.threadId;
    for (const tab of [here, there]) await tab.lists(one);
    await here.newChat();
    await here.say("say two 3 2");
    await here.shows("say two 3 2", words("two", 3));
    const two = here.threadId;
    for (const tab of [here, there]) await tab.lists(two, one);
    there.answer = "A name of mine";
    await there.press(one, "Rename");
    for (const tab of [here, there]) await tab.item(one).getByText("A name of mine").waitFor();
    await there.press(two, "Archive");
    for (const tab of [here, there]) await tab.lists(one);
    await here.press(one, "Delete");
    for (const tab of [here, there]) await tab.lists();
    const another = await site.open(await newUser());
    await another.lists();
    for (const tab of [here, there, another]) await tab.close();
  });

  test("switching threads during a run, and back, mixes no messages", options, async () => {
    const tab = await site.open(await newUser());
    await tab.say("say slow 150 30");
    await tab.hears("slow5 ");
    const slow = tab.threadId;
    await tab.newChat();
    await tab.say("say quick 5 2");
    await tab.shows("say quick 5 2", words("quick", 5));
    const quick = tab.threadId;
    await tab.turnTo(slow);
    await tab.hears("slow20 ");
    await tab.turnTo(quick);
    await tab.shows("say quick 5 2", words("quick", 5));
    await tab.turnTo(slow);
    await tab.shows("say slow 150 30", words("slow", 150));
    await tab.turnTo(quick);
    await tab.shows("say quick 5 2", words("quick", 5));
    await tab.close();
  });

  test("stop, then continue", options, async () => {
    const user = await newUser();
    const tab = await site.open(user);
    await tab.say("say stopped 1000 20");
    await tab.hears("stopped10 ");
    await tab.page.getByTestId("copilot-send-button").click();
    const run = async () =>
      (await (await threadline.get(user, `/v1/threads/${tab.threadId}/runs`)).json()).runs[0]?.status;
    await until("the end of the run", async () => (await run()) !== "running");
    await tab.say("say on 3 2");
    await tab.hears("on3");
    await tab.reload();
    await tab.hears("on3");
    const [, broken, , on] = await tab.said();
    assert.ok(words("stopped", 1000).startsWith(broken) && broken.length < 10_000, broken);
    assert.equal(on, words("on", 3).trim());
    await tab.close();
  });

  // docs/copilotkit.md says where the notice appears; CopilotKit decides that, not Threadline.
  test(`CopilotKit's license notice is ${direct ? "not shown" : "shown, and the chat works"}`, options, async () => {
    const tab = await site.open(await newUser());
    await tab.say("say words 5 2");
    await tab.shows("say words 5 2", words("words", 5));
    const notice = tab.page.getByText(/requires a CopilotKit license|Get a license/i).first();
    if (direct) assert.equal(await notice.count(), 0);
    else await notice.waitFor();
    await tab.close();
  });
});

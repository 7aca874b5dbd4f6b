import "./dom.js";
import { createElement, type ReactElement } from "react";
import { hydrateRoot } from "react-dom/client";
import { renderToString } from "react-dom/server";
import { afterEach, expect, test, vi } from "vitest";
import { ThreadlineProvider, useInbox, useThread, useThreads } from "../../src/react/index.js";
import { proxy, server, useProxiedServer } from "../harness/proxied.js";
import { until } from "../harness/until.js";
import { makeThread, write } from "../harness/writer.js";
import { connect } from "./page.js";

useProxiedServer();
afterEach(() => vi.restoreAllMocks());

function Chat({ threadId }: { threadId: string }): ReactElement {
  const { threads, isLoading } = useThreads();
  const { messages } = useThread(threadId);
  const inbox = useInbox();
  return (
    <main>
      <p>{isLoading ? "loading" : `${threads.length} threads`}</p>
      <p>{inbox.isLoading ? "loading" : `${inbox.interrupts.length} wait`}</p>
      {messages.map(({ id, content }) => (
        <p key={id}>{String(content)}</p>
      ))}
    </main>
  );
}

test("a server renders it without a request, and a page hydrates it without a warning", async () => {
  const threadId = await makeThread(server);
  await write(server, threadId, { deltas: 2 });
  const client = connect({ url: proxy.url });
  const tree = createElement(ThreadlineProvider, { client }, <Chat threadId={threadId} />);
  const html = renderToString(tree);
  expect(html).toBe("<main><p>loading</p><p>loading</p></main>");
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(proxy.requests).toEqual([]);
  expect(client.status).toEqual({ state: "idle" });

  const complaints = [vi.spyOn(console, "error"), vi.spyOn(console, "warn")];
  const container = document.createElement("div");
  container.innerHTML = html;
  const errors: unknown[] = [];
  const root = hydrateRoot(container, tree, { onRecoverableError: (error) => errors.push(error) });
  await until(
    "the messages",
    () => container.innerHTML.includes("1 threads</p><p>0 wait</p><p>wörd 0"),
    () => container.innerHTML,
  );
  expect(errors).toEqual([]);
  for (const complaint of complaints) expect(complaint).not.toHaveBeenCalled();
  root.unmount();
  await until("nothing to be followed", () => client.status.state === "idle");
  client.close();
});

test("without a provider the error names what is missing", () => {
  expect(() => renderToString(<Chat threadId="t" />)).toThrow(/ThreadlineProvider/);
});

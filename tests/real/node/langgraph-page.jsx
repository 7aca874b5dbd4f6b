// Chat of `langgraph-page.test.mjs`: `useStream` as an application calls it, with its thread in the address.

import { useStream } from "@langchain/react";
import { useState } from "react";
import { createRoot } from "react-dom/client";

const settings = new URLSearchParams(location.search);

function keep(threadId) {
  settings.set("thread", threadId);
  history.replaceState(null, "", `?${settings}`);
}

const textOf = ({ content }) =>
  typeof content === "string" ? content : content.map(({ text = "" }) => text).join("");

function Chat() {
  const [text, setText] = useState("");
  const stream = useStream({
    apiUrl: settings.get("server"),
    assistantId: "scripted",
    threadId: settings.get("thread"),
    onThreadId: keep,
    transport: settings.get("transport") ?? "sse",
  });
  const send = (event) => {
    event.preventDefault();
    stream.submit({ messages: [{ type: "human", content: text }] });
  };
  return (
    <main data-loading={stream.isLoading}>
      <ol>
        {stream.messages.map((message) => (
          <li key={message.id}>
            {message.getType()}: {textOf(message)}
          </li>
        ))}
      </ol>
      {stream.toolCalls.map(({ id, name, status }) => (
        <p key={id}>
          {name} {status}
        </p>
      ))}
      {stream.interrupts.map(({ id, value }) => (
        <button key={id} onClick={() => stream.respond({ approved: true }, { interruptId: id })}>
          {value.message}
        </button>
      ))}
      {stream.error !== undefined && <div role="alert">{String(stream.error)}</div>}
      <form onSubmit={send}>
        <input value={text} onChange={({ target }) => setText(target.value)} />
      </form>
    </main>
  );
}

createRoot(document.body.appendChild(document.createElement("div"))).render(<Chat />);

// Streams of OpenAI's APIs, written from their reference: what a client of theirs yields.

type Item = { readonly [member: string]: unknown };

const chunk = (delta: object, finish_reason: string | null = null): Item => ({
  id: "chatcmpl-1",
  object: "chat.completion.chunk",
  created: 1,
  model: "m",
  choices: [{ index: 0, delta, logprobs: null, finish_reason }],
});

const piece = (index: number, args: string, begin: object = {}) =>
  chunk({
    tool_calls: [{ index, ...begin, function: { ...("name" in begin && { name: begin.name }), arguments: args } }],
  });

/** A chat completion with reasoning, a text, two calls whose pieces alternate, and the usage. */
export const CHAT: readonly Item[] = [
  chunk({ role: "assistant", content: "", refusal: null }),
  chunk({ reasoning_content: "I look " }),
  chunk({ reasoning_content: "it up." }),
  chunk({ content: "One " }),
  chunk({ content: "moment." }),
  piece(0, "", { id: "call-1", type: "function", name: "search" }),
  piece(1, "", { id: "call-2", type: "function", name: "weather" }),
  piece(0, '{"q":'),
  piece(1, '{"city":"Bern"}'),
  piece(0, '"parcels"}'),
  chunk({}, "tool_calls"),
  { ...chunk({}), choices: [], usage: { prompt_tokens: 5, completion_tokens: 9, total_tokens: 14 } },
];

const response = { id: "resp-1", object: "response", status: "in_progress", output: [] };
let sequence = 0;
const said = (type: string, members: Item): Item => ({
  type: `response.${type}`,
  sequence_number: (sequence += 1),
  ...members,
});
const inItem = (item_id: string, output_index: number, more: Item = {}): Item => ({ item_id, output_index, ...more });

/** A response with reasoning in two paragraphs, a text with a citation, a search of the endpoint's own, and a call. */
export const RESPONSE: readonly Item[] = [
  said("created", { response }),
  said("in_progress", { response }),
  said("output_item.added", { output_index: 0, item: { id: "rs-1", type: "reasoning", summary: [] } }),
  said(
    "reasoning_summary_part.added",
    inItem("rs-1", 0, { summary_index: 0, part: { type: "summary_text", text: "" } }),
  ),
  said("reasoning_summary_text.delta", inItem("rs-1", 0, { summary_index: 0, delta: "I look " })),
  said("reasoning_summary_text.delta", inItem("rs-1", 0, { summary_index: 0, delta: "it up." })),
  said("reasoning_summary_text.done", inItem("rs-1", 0, { summary_index: 0, text: "I look it up." })),
  said(
    "reasoning_summary_part.added",
    inItem("rs-1", 0, { summary_index: 1, part: { type: "summary_text", text: "" } }),
  ),
  said("reasoning_summary_text.delta", inItem("rs-1", 0, { summary_index: 1, delta: "Then I say it." })),
  said("output_item.done", { output_index: 0, item: { id: "rs-1", type: "reasoning", summary: [] } }),
  said("output_item.added", { output_index: 1, item: { id: "ws-1", type: "web_search_call", status: "in_progress" } }),
  said("web_search_call.searching", inItem("ws-1", 1)),
  said("web_search_call.completed", inItem("ws-1", 1)),
  said("output_item.done", { output_index: 1, item: { id: "ws-1", type: "web_search_call", status: "completed" } }),
  said("output_item.added", {
    output_index: 2,
    item: { id: "msg-1", type: "message", role: "assistant", content: [] },
  }),
  said("content_part.added", inItem("msg-1", 2, { content_index: 0, part: { type: "output_text", text: "" } })),
  said("output_text.delta", inItem("msg-1", 2, { content_index: 0, delta: "One " })),
  said("output_text.delta", inItem("msg-1", 2, { content_index: 0, delta: "moment." })),
  said(
    "output_text.annotation.added",
    inItem("msg-1", 2, { annotation: { type: "url_citation", url: "https://a.example" } }),
  ),
  said("output_text.done", inItem("msg-1", 2, { content_index: 0, text: "One moment." })),
  said(
    "content_part.done",
    inItem("msg-1", 2, { content_index: 0, part: { type: "output_text", text: "One moment." } }),
  ),
  said("output_item.done", { output_index: 2, item: { id: "msg-1", type: "message", role: "assistant" } }),
  said("output_item.added", {
    output_index: 3,
    item: { id: "fc-1", type: "function_call", call_id: "call-1", name: "search", arguments: "" },
  }),
  said("function_call_arguments.delta", inItem("fc-1", 3, { delta: '{"q":' })),
  said("function_call_arguments.delta", inItem("fc-1", 3, { delta: '"parcels"}' })),
  said("function_call_arguments.done", inItem("fc-1", 3, { arguments: '{"q":"parcels"}' })),
  said("output_item.done", {
    output_index: 3,
    item: { id: "fc-1", type: "function_call", call_id: "call-1", name: "search", arguments: '{"q":"parcels"}' },
  }),
  said("completed", { response: { ...response, status: "completed" } }),
];

/** The events of an AG-UI agent. */
export const AG_UI: readonly Item[] = [
  {
    type: "RUN_STARTED",
    threadId: "elsewhere",
    runId: "other",
    input: { messages: [{ id: "q", role: "user", content: "?" }] },
  },
  { type: "REASONING_START", messageId: "r" },
  { type: "REASONING_MESSAGE_START", messageId: "r", role: "reasoning" },
  { type: "REASONING_MESSAGE_CONTENT", messageId: "r", delta: "I look it up." },
  { type: "REASONING_MESSAGE_END", messageId: "r" },
  { type: "REASONING_END", messageId: "r" },
  { type: "TEXT_MESSAGE_CHUNK", messageId: "m", role: "assistant", delta: "One " },
  { type: "TEXT_MESSAGE_CHUNK", delta: "moment." },
  { type: "TOOL_CALL_START", toolCallId: "call-1", toolCallName: "search", parentMessageId: "m" },
  { type: "TOOL_CALL_ARGS", toolCallId: "call-1", delta: '{"q":"parcels"}' },
  { type: "TOOL_CALL_END", toolCallId: "call-1" },
  { type: "CUSTOM", name: "threadline.attempt", value: { attempt: 2 } },
  { type: "RUN_FINISHED", threadId: "elsewhere", runId: "other" },
];

// Every component of a conversation and of the list, in every state that it has, with fixed props.

import type { ReactNode } from "react";
import type { Agent, Interrupt, Message, Run, Thread, ToolCall } from "threadline";
import type { AnyMessage } from "../../src/untrusted.ts";
import type { ShownTurn, UseThread } from "threadline/react";
import { Composer } from "../../src/conversation/Composer.tsx";
import { Deliveries } from "../../src/conversation/Delivery.tsx";
import { NO_ENDS } from "../../src/conversation/ends.ts";
import { OpenFolds } from "../../src/conversation/Fold.tsx";
import type { Item } from "../../src/conversation/items.ts";
import { Messages } from "../../src/conversation/Messages.tsx";
import { BranchPicker } from "../../src/conversation/BranchPicker.tsx";
import type { Branching } from "../../src/conversation/branching.ts";
import { MessageView } from "../../src/conversation/MessageView.tsx";
import { MomentBar, Missing, Skeleton } from "../../src/conversation/places.tsx";
import { Queue } from "../../src/conversation/Queue.tsx";
import { RunDivider } from "../../src/conversation/RunEnd.tsx";
import { Tail } from "../../src/conversation/Tail.tsx";
import { ThreadHeader } from "../../src/conversation/ThreadHeader.tsx";
import { ToolCard } from "../../src/conversation/ToolCard.tsx";
import { UserMessage } from "../../src/conversation/UserMessage.tsx";
import { Welcome } from "../../src/conversation/Welcome.tsx";
import type { ThreadLog } from "../../src/inspector/log/thread-log.ts";
import { RunItem } from "../../src/inspector/runs/RunsPanel.tsx";
import { Blank, Loading } from "../../src/parts/Blank.tsx";
import { Button } from "../../src/parts/Button.tsx";
import { DRAFTS } from "../../src/session.ts";
import type { ThreadActions } from "../../src/threads/actions.tsx";
import { ThreadRow } from "../../src/threads/ThreadRow.tsx";

/** Time at which the pictures are taken. */
export const NOW = "2026-03-02T12:00:00Z";
const ago = (seconds: number) => new Date(Date.parse(NOW) - 1_000 * seconds).toISOString();

export interface Cell {
  /** The component and its state; also the name of its picture. */
  readonly name: string;
  /** Place in the console: that says how wide it is, and what styles it gets. */
  readonly place: "conversation" | "sidebar" | "inspector" | "pane";
  readonly node: ReactNode;
  /** A long text that has to be there, to the last letter. */
  readonly whole?: string;
}

const never = () => Promise.reject(new Error("no server is asked"));
const nothing = () => {};

const text = (role: string, content: string, more: Partial<AnyMessage> = {}): AnyMessage => ({
  id: "m",
  role,
  content,
  ...more,
});

function message(
  given: AnyMessage,
  state: { isGrowing?: boolean; isRunning?: boolean; results?: readonly AnyMessage[]; open?: string } = {},
): ReactNode {
  const { isGrowing = false, isRunning = isGrowing, results = [], open } = state;
  const item: Item = { message: given, results, beginsTurn: given.role !== "user" };
  return (
    <OpenFolds value={new Set(open === undefined ? [] : [open])}>
      <MessageView item={item} isGrowing={isGrowing} isRunning={isRunning} agentId="writer" answer={undefined} />
    </OpenFolds>
  );
}

/** A message that was not sent. */
const unsent = (given: AnyMessage) => (
  <Deliveries value={{ retry: nothing, discard: nothing }}>
    {message({ ...given, delivery: "failed", deliveryError: new Error("no answer from the server") })}
  </Deliveries>
);

const branching: Branching = { edit: never, regenerate: nothing, onEditing: nothing };

/** A message that is being edited. */
const edited = (given: AnyMessage) => <UserMessage message={given} branching={branching} isEdited />;

/** The picker beneath a message, at one of three branches. */
const picker = (shown: number) => (
  <>
    {message(text("user", "Two nights, please."))}
    <BranchPicker
      parting={{ seq: 1, messageId: "m", threads: [thread(), thread(), thread()], shown }}
      onPick={nothing}
    />
  </>
);

const MARKDOWN = [
  "## What was found",
  "There are **three** rooms, of which `blue` is *free* until [Friday](https://example.com/).",
  "- the first, which is rather small\n- the second, with a long name that needs more than the one line that it has on a phone\n  - with a balcony",
  "1. call\n2. book",
  "> Nobody has asked before.",
  "| room | price |\n|---|--:|\n| blue | 120 |\n| red | 95 |",
  "```js\nconst room = await book({ name: 'blue' });\n```",
  "- [x] asked\n- [ ] booked",
].join("\n\n");

const ARGUMENTS = '{"city": "Berlin", "nights": 3, "rooms": [{"beds": 2, "smoking": false}], "note": null}';
const call = (given: string): ToolCall => ({
  id: "c",
  type: "function",
  function: { name: "find_rooms", arguments: given },
});
const result = (more: Partial<AnyMessage>): AnyMessage => ({ id: "r", role: "tool", toolCallId: "c", ...more });

function tool(
  given: string,
  state: { isRunning?: boolean; result?: AnyMessage; answer?: boolean; open?: string } = {},
): ReactNode {
  return (
    <OpenFolds value={new Set(state.open === undefined ? [] : [state.open])}>
      <article className="message from-assistant">
        <ToolCard
          call={call(given)}
          result={state.result}
          isRunning={state.isRunning ?? false}
          answer={state.answer ? never : undefined}
        />
        {/* What follows is not to be covered. */}
        <div className="said">
          <p>What follows the call.</p>
        </div>
      </article>
    </OpenFolds>
  );
}

const run = (status: Run["status"], more: Partial<Run> = {}): Run => {
  const isActive = status === "running" || status === "finishing";
  return {
    runId: "run-4711",
    agentId: "writer",
    status,
    errorCode: null,
    errorMessage: null,
    author: null,
    askedBy: null,
    attempt: 1,
    driven: false,
    usage: null,
    firstSeq: 3,
    lastSeq: 42,
    producerSeq: 40,
    startedAt: ago(319),
    endedAt: isActive ? null : ago(300),
    leaseUntil: isActive ? ago(-30) : null,
    stopRequested: false,
    ...more,
  };
};
const FAILED = run("error", { errorCode: "lease-expired", errorMessage: "The producer fell silent for 30 seconds." });

const thread = (more: Partial<Thread> = {}): Thread => ({
  threadId: "63db9a7e-0000-4000-8000-000000000000",
  name: "Three nights in Berlin, with a balcony if there is one",
  nameSource: "person",
  agentId: "writer",
  userId: "dev",
  archived: false,
  metadata: {},
  createdAt: ago(9_000),
  updatedAt: ago(9_000),
  lastRunAt: ago(300),
  tail: 42,
  readSeq: 42,
  epoch: "e",
  activeRun: null,
  lastRun: null,
  openInterrupts: 0,
  queued: 0,
  held: null,
  forkedFrom: null,
  branched: false,
  listed: true,
  ...more,
});

const actions: ThreadActions = { rename: nothing, remove: nothing, items: () => [] };
const row = (given: Thread, isSelected = false) => (
  <ThreadRow thread={given} isSelected={isSelected} actions={actions} />
);

const header = (running: "running" | "stopping" | undefined, given: Thread | null = thread()) => (
  <ThreadHeader
    thread={given && { ...given, activeRun: running ? run("running") : null }}
    agentId={given ? "writer" : undefined}
    running={running}
    actions={actions}
    isInspecting={running === "stopping"}
    onInspect={nothing}
  />
);

const agents: readonly Agent[] = [
  {
    agentId: "writer",
    kind: "ag-ui",
    onDisconnect: "continue",
    idleTimeoutSeconds: 60,
    namesThreads: false,
    origin: "configuration",
  } as Agent,
];

/** `draft` is the text in the field. */
function composer(draft: string, more: { running?: "running" | "stopping"; blocked?: string; isAlone?: boolean } = {}) {
  const { isAlone = false, ...rest } = more;
  const threadId = `gallery ${draft}`;
  sessionStorage.setItem(`${DRAFTS}${threadId}`, draft);
  return (
    <Composer
      threadId={threadId}
      agents={isAlone ? [] : agents}
      agentId={isAlone ? undefined : "writer"}
      onAgent={nothing}
      onSend={never}
      onStop={nothing}
      {...rest}
    />
  );
}

const live = (more: Partial<UseThread>): UseThread => ({
  shownThreadId: "t",
  isSending: false,
  retry: never,
  discard: nothing,
  thread: thread(),
  messages: [text("user", "Hello") as Message],
  state: {},
  interrupts: [],
  pendingToolCalls: [],
  run: null,
  isRunning: false,
  queue: { version: 0, held: null, items: [] },
  branches: [],
  partings: [],
  isLoading: false,
  error: null,
  hasMoreMessages: false,
  isFetchingMoreMessages: false,
  status: { state: "live" } as UseThread["status"],
  send: never,
  edit: never,
  regenerate: never,
  showBranch: never,
  listBranch: never,
  stop: never,
  resume: never,
  addToolResult: never,
  editTurn: never,
  moveTurn: never,
  removeTurn: never,
  startTurn: never,
  holdQueue: never,
  releaseQueue: never,
  fetchMoreMessages: never,
  markRead: never,
  ...more,
});

const turn = (runId: string, content: unknown, hasBegun = false): ShownTurn => ({
  runId,
  agentId: "writer",
  askedBy: "user:ann",
  at: ago(60),
  messages: [{ id: `m-${runId}`, role: "user", content } as Message],
  hasBegun,
});
const TURNS = [
  turn("a", "And in French?"),
  turn(
    "b",
    "Please find out what the train costs from there to the coast, with two bicycles, on a day before Easter.\nTwice.",
  ),
  turn("c", [{ type: "image", url: "data:," }]),
];

/** The queue of a thread with a run, unless it rests. */
function queue(items: readonly ShownTurn[], more: Partial<UseThread> = {}, mayWrite = true) {
  const held = more.queue?.held ?? null;
  return <Queue live={live({ isRunning: true, ...more, queue: { version: 1, held, items } })} mayWrite={mayWrite} />;
}
const held = (why: "stop" | "error" | "hand") => ({ isRunning: false, queue: { version: 1, held: why, items: [] } });

function tail(given: Partial<UseThread>, more: { lastRun?: Run; isReader?: boolean; open?: string } = {}) {
  return (
    <OpenFolds value={new Set(more.open === undefined ? [] : [more.open])}>
      <div className="messages-tail">
        <Tail
          live={live(given)}
          moment={undefined}
          lastRun={more.lastRun}
          onAnswer={more.isReader ? undefined : never}
          onAgain={more.isReader ? undefined : never}
        />
      </div>
    </OpenFolds>
  );
}

const YES_OR_NO: Interrupt = {
  id: "i",
  reason: "approval",
  message: "Shall I book the blue room for three nights?",
  responseSchema: { type: "boolean", description: "It costs 360 and cannot be cancelled." },
} as Interrupt;
const FIELDS: Interrupt = {
  id: "i",
  reason: "input",
  message: "Which room?",
  responseSchema: {
    type: "object",
    required: ["room"],
    properties: {
      room: { type: "string", enum: ["blue", "red"], title: "Room" },
      nights: { type: "integer", title: "Nights", description: "No more than seven." },
      note: { title: "Note" },
    },
  },
} as Interrupt;

/** An answer that has ended; its end is in view. */
function long(name: string, sentences: number): Cell {
  const words = (at: number) => `Sentence ${at} of a long answer, which is whole.`;
  const blocks = Array.from({ length: sentences }, (_, at) => words(at));
  const content = `${blocks.join("\n\n")}\n\nThe last words of it.`;
  return {
    name,
    place: "pane",
    whole: content,
    node: (
      <Messages
        messages={[text("user", "Write a book"), text("assistant", content, { id: "long" })]}
        ends={NO_ENDS}
        isRunning={false}
        agentId="writer"
        hasMore={false}
        isFetching={false}
        onMore={nothing}
        answer={undefined}
      >
        <p className="run-end">What follows.</p>
      </Messages>
    ),
  };
}

const conversation = (name: string, node: ReactNode): Cell => ({ name, place: "conversation", node });
const pane = (name: string, node: ReactNode): Cell => ({ name, place: "pane", node });
const listed = (name: string, node: ReactNode): Cell => ({ name, place: "sidebar", node });
const inspected = (name: string, node: ReactNode): Cell => ({ name, place: "inspector", node });
const runItem = (of: Run) => <RunItem run={of} tail={42} log={{} as ThreadLog} onShow={nothing} />;

export const CELLS: readonly Cell[] = [
  conversation("user done", message(text("user", "Three nights in Berlin,\nplease."))),
  conversation("user edited", edited(text("user", "Three nights in Berlin,\nplease."))),
  conversation("branch picker first", picker(0)),
  conversation("branch picker last", picker(2)),
  conversation("assistant empty", message(text("assistant", ""), { isGrowing: true })),
  conversation("assistant growing", message(text("assistant", "There are **three** ro"), { isGrowing: true })),
  conversation("assistant growing code", message(text("assistant", "```js\nconst room ="), { isGrowing: true })),
  conversation("assistant done", message(text("assistant", MARKDOWN))),
  conversation("assistant cut off", message(text("assistant", "There are **three ro\n\n```js\nconst"))),
  conversation(
    "assistant of a subagent",
    message(text("assistant", "Found.", { name: "searcher", subagentRunId: "sub-1" })),
  ),
  conversation(
    "assistant with calls running",
    message(text("assistant", "I look.", { toolCalls: [call(ARGUMENTS)] }), { isRunning: true }),
  ),
  conversation(
    "assistant with calls done",
    message(text("assistant", "I look.", { toolCalls: [call(ARGUMENTS)] }), {
      results: [result({ content: '{"rooms": 3}' })],
    }),
  ),
  long("assistant done 30,000 characters", 620),
  long("assistant done 120,000 characters", 2_450),
  conversation("reasoning empty", message(text("reasoning", ""), { isGrowing: true })),
  conversation("reasoning growing", message(text("reasoning", "They want a balcony, so "), { isGrowing: true })),
  conversation("reasoning growing open", message(text("reasoning", "They want a ba"), { isGrowing: true, open: "m" })),
  conversation("reasoning done", message(text("reasoning", "They want a balcony."))),
  conversation("reasoning done open", message(text("reasoning", "They want a balcony."), { open: "m" })),
  conversation("reasoning hidden", message(text("reasoning", ""))),
  conversation(
    "activity done",
    message({ id: "m", role: "activity", activityType: "PLAN", content: { steps: ["look"] } } as unknown as AnyMessage),
  ),
  conversation(
    "activity done open",
    message(
      { id: "m", role: "activity", activityType: "PLAN", content: { steps: ["look"] } } as unknown as AnyMessage,
      {
        open: "m",
      },
    ),
  ),
  conversation("aside done", message(text("system", "You are a travel agent."))),
  conversation("aside done open", message(text("system", "You are a travel agent."), { open: "m" })),
  conversation("tool call empty", tool("", { isRunning: true })),
  conversation("tool call growing", tool('{"city": "Berl', { isRunning: true })),
  conversation("tool call running", tool(ARGUMENTS, { isRunning: true })),
  conversation("tool call waiting", tool(ARGUMENTS, { answer: true })),
  conversation("tool call waiting open", tool(ARGUMENTS, { answer: true, open: "answer c" })),
  conversation("tool call done", tool(ARGUMENTS, { result: result({ content: '{"rooms": 3}' }) })),
  conversation(
    "tool call done open",
    tool(ARGUMENTS, { result: result({ content: '{"rooms": 3}' }), open: "result r" }),
  ),
  conversation("tool call failed", tool(ARGUMENTS, { result: result({ error: "There is no such city." }) })),
  conversation("tool call cut off", tool('{"city": "Berl')),
  ...(["finished", "stopped", "error", "abandoned"] as const).map((status) =>
    conversation(`run divider ${status}`, <RunDivider run={status === "error" ? FAILED : run(status)} />),
  ),
  conversation("tail empty", tail({ messages: [] })),
  conversation("tail running", tail({ isRunning: true })),
  conversation("tail done", tail({}, { lastRun: run("finished") })),
  conversation("tail stopped", tail({}, { lastRun: run("stopped") })),
  conversation("tail failed", tail({}, { lastRun: FAILED })),
  conversation("tail failed for a reader", tail({}, { lastRun: FAILED, isReader: true })),
  conversation("tail waiting for yes or no", tail({ interrupts: [YES_OR_NO] })),
  conversation("tail waiting for fields", tail({ interrupts: [FIELDS] })),
  conversation("tail waiting for a reader", tail({ interrupts: [YES_OR_NO] }, { isReader: true })),
  conversation("tail with a state", tail({ state: { plan: ["look", "book"], city: "Berlin" } })),
  conversation("tail with a state open", tail({ state: { plan: ["look", "book"] } }, { open: "state" })),
  pane("header empty", header(undefined, null)),
  pane("header done", header(undefined)),
  pane("header running", header("running")),
  pane("header stopping", header("stopping")),
  pane("composer empty", composer("")),
  pane("composer growing", composer("Three nights in Berlin,\nplease. And a balcony, if there is one.")),
  pane("composer running", composer("And", { running: "running" })),
  pane("composer running without a text", composer("", { running: "running" })),
  pane("composer stopping", composer("And a", { running: "stopping" })),
  pane("composer waiting", composer("And a b", { blocked: "The agent waits for an answer: answer it first." })),
  pane("composer without an agent", composer("And a ba", { isAlone: true })),

  pane("queue running", queue(TURNS)),
  pane("queue beginning", queue([turn("a", "And in French?", true), ...TURNS.slice(1, 2)])),
  pane("queue held after a stop", queue(TURNS.slice(0, 1), held("stop"))),
  pane("queue held after an error", queue(TURNS.slice(0, 1), held("error"))),
  pane("queue held by hand", queue([], held("hand"))),
  pane("queue waiting for an answer", queue(TURNS.slice(0, 2), { isRunning: false, interrupts: [YES_OR_NO] })),
  pane("queue for a reader", queue(TURNS.slice(0, 2), {}, false)),
  pane("conversation loading", <Skeleton />),
  pane("conversation missing", <Missing threadId="no-such-thread" error={null} />),
  pane(
    "conversation of the past",
    <MomentBar
      threadId="t"
      panel={undefined}
      moment={{ at: 12, messages: [], state: null, isLoading: false, error: null }}
      tail={34}
    />,
  ),
  pane("conversation not chosen", <Welcome />),
  pane("list loading", <Loading what="the threads" />),
  pane(
    "list failed",
    <Blank title="The list cannot be loaded">
      <p>The server does not answer.</p>
      <Button>Try again</Button>
    </Blank>,
  ),
  listed("row done", row(thread())),
  listed("row running", row(thread({ activeRun: run("running") }))),
  listed("row unread", row(thread({ readSeq: 3 }))),
  listed("row unread and running", row(thread({ readSeq: 3, activeRun: run("running") }))),
  listed("row selected", row(thread(), true)),
  listed("row selected and running", row(thread({ activeRun: run("running") }), true)),
  listed("row running with a queue", row(thread({ activeRun: run("running"), queued: 2 }))),
  listed("row held", row(thread({ queued: 12, held: "stop" }))),
  listed("row archived", row(thread({ archived: true }))),
  listed("row empty", row(thread({ name: null, tail: 0, readSeq: 0, lastRunAt: null, agentId: null }))),
  inspected("run running", runItem(run("running"))),
  inspected("run stopping", runItem(run("running", { stopRequested: true }))),
  inspected("run finishing", runItem(run("finishing"))),
  inspected("run finished", runItem(run("finished"))),
  inspected("run failed", runItem(FAILED)),
  inspected("run stopped", runItem(run("stopped"))),
  inspected("run abandoned", runItem(run("abandoned", { lastSeq: 2 }))),
  conversation("user sending", message({ ...text("user", "Three nights in Berlin,\nplease."), delivery: "sending" })),
  conversation("user not sent", unsent(text("user", "Three nights in Berlin,\nplease."))),
];

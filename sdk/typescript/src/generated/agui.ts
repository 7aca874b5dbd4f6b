// AG-UI's types, of @ag-ui/core 1.0.0. Written by scripts/agui-types.mjs.

import type { CustomEvents, State } from "../register.js";

/** The fields every event carries, whatever its type. */
export type BaseEvent = {
  /** When the event was created. */
  readonly timestamp?: number;
  /** The provider-native event this one was translated from, carried verbatim for debugging and for consumers that need detail the protocol does not model. */
  readonly rawEvent?: unknown;
  /** Extra information attached to this event. */
  readonly metadata?: Metadata;
};

/** Composed into everything that can belong to a subagent's work: the events that describe content or progress, the message types, and each interrupt. */
export type Attributable = {
  /** The subagent invocation this belongs to. */
  readonly subagentRunId?: SubagentRunId;
};

/** Any AG-UI event. */
export type AgUiEvent =
  | TextMessageStartEvent
  | TextMessageContentEvent
  | TextMessageEndEvent
  | TextMessageChunkEvent
  | ToolCallStartEvent
  | ToolCallArgsEvent
  | ToolCallEndEvent
  | ToolCallChunkEvent
  | ToolCallResultEvent
  | StateSnapshotEvent
  | StateDeltaEvent
  | MessagesSnapshotEvent
  | ActivitySnapshotEvent
  | ActivityDeltaEvent
  | RawEvent
  | CustomEvent
  | RunStartedEvent
  | RunFinishedEvent
  | RunErrorEvent
  | StepStartedEvent
  | StepFinishedEvent
  | ReasoningStartEvent
  | ReasoningMessageStartEvent
  | ReasoningMessageContentEvent
  | ReasoningMessageEndEvent
  | ReasoningMessageChunkEvent
  | ReasoningEndEvent
  | ReasoningEncryptedValueEvent
  | SubagentStartedEvent
  | SubagentFinishedEvent
  | SubagentErrorEvent;

/** Any message in a conversation. */
export type Message =
  DeveloperMessage | SystemMessage | AssistantMessage | UserMessage | ToolMessage | ActivityMessage | ReasoningMessage;

/** A tool the agent may call. */
export type Tool = {
  /** The tool's name, as the agent will call it. */
  readonly name: string;
  /** What the tool does, for the agent to decide when to use it. */
  readonly description: string;
  /** A JSON Schema describing the tool's arguments. */
  readonly parameters?: unknown;
  /** Extra information about the tool, for consumers that attach their own rendering or routing information to it. */
  readonly metadata?: Metadata;
};

/** A request to run an agent. */
export type RunAgentInput = {
  /** The conversation this run belongs to. */
  readonly threadId: string;
  /** Identifies this run. */
  readonly runId: string;
  /** The protocol version this consumer speaks, such as "1.0". */
  readonly protocolVersion?: string;
  /** The run that spawned this one. */
  readonly parentRunId?: string;
  /** The state the run starts from. */
  readonly state?: State;
  /** The conversation so far, in order. */
  readonly messages: readonly Message[];
  /** The tools the agent may call. */
  readonly tools?: readonly Tool[];
  /** Ambient information for the run. */
  readonly context?: readonly Context[];
  /** Application-specific values passed through to the agent untouched. */
  readonly forwardedProps?: unknown;
  /** Answers to the interrupts that ended a previous run, when this run continues from one. */
  readonly resume?: readonly ResumeEntry[];
};

/** Something a run needs from outside before it can continue, such as an approval or a missing value. */
export type Interrupt = Attributable & {
  /** Identifies the interrupt. */
  readonly id: string;
  /** Why the run stopped. */
  readonly reason: string;
  /** A human-readable prompt for whoever answers. */
  readonly message?: string;
  /** The tool call this interrupt concerns, when it is a tool approval. */
  readonly toolCallId?: string;
  /** A JSON Schema describing the answer this interrupt expects, so a consumer can build a form for it. */
  readonly responseSchema?: Readonly<Record<string, unknown>>;
  /** When the interrupt stops being answerable. */
  readonly expiresAt?: string;
  /** Extra information attached to this interrupt. */
  readonly metadata?: Metadata;
};

/** Extra information attached to an event, a message, a tool call, a tool, an interrupt or a resume entry. */
export type Metadata = Readonly<Record<string, unknown>>;

/** An opaque handle for one subagent invocation, not a reusable name for a subagent definition: two invocations of the same subagent carry two different values. */
export type SubagentRunId = string;

/** Opens a streamed text message. */
export type TextMessageStartEvent = BaseEvent &
  Attributable & {
    readonly type: "TEXT_MESSAGE_START";
    /** Identifies the message this stream builds, and ties the later content and end events to it. */
    readonly messageId: string;
    /** Who the message is from. */
    readonly role?: TextMessageRole;
    /** An optional display name for the author, for providers that distinguish several participants in one role. */
    readonly name?: string;
  };

/** Appends a fragment to a streamed text message. */
export type TextMessageContentEvent = BaseEvent &
  Attributable & {
    readonly type: "TEXT_MESSAGE_CONTENT";
    /** The message this fragment belongs to. */
    readonly messageId: string;
    /** The fragment to append. */
    readonly delta: string;
  };

/** Closes a streamed text message. */
export type TextMessageEndEvent = BaseEvent &
  Attributable & {
    readonly type: "TEXT_MESSAGE_END";
    /** The message being closed. */
    readonly messageId: string;
  };

/** A shorthand that stands in for a start, content and end sequence, for producers that cannot know in advance where a message begins. */
export type TextMessageChunkEvent = BaseEvent &
  Attributable & {
    readonly type: "TEXT_MESSAGE_CHUNK";
    /** The message this chunk belongs to. */
    readonly messageId?: string;
    /** Who the message is from, on the chunk that opens it. */
    readonly role?: TextMessageRole;
    /** The fragment to append. */
    readonly delta?: string;
    /** An optional display name for the author. */
    readonly name?: string;
  };

/** Opens a tool call. */
export type ToolCallStartEvent = BaseEvent &
  Attributable & {
    readonly type: "TOOL_CALL_START";
    /** Identifies the call, and ties the later args, end and result events to it. */
    readonly toolCallId: string;
    /** Which tool is being called. */
    readonly toolCallName: string;
    /** The assistant message that holds this call. */
    readonly parentMessageId?: string;
  };

/** Appends a fragment of a tool call's arguments. */
export type ToolCallArgsEvent = BaseEvent &
  Attributable & {
    readonly type: "TOOL_CALL_ARGS";
    /** The call these arguments belong to. */
    readonly toolCallId: string;
    /** A fragment of the arguments, which concatenate into the call's argument text — conventionally a JSON document, though the protocol does not validate it (see FunctionCall.arguments). */
    readonly delta: string;
  };

/** Closes a tool call, meaning its arguments are complete. */
export type ToolCallEndEvent = BaseEvent &
  Attributable & {
    readonly type: "TOOL_CALL_END";
    /** The call being closed. */
    readonly toolCallId: string;
  };

/** A shorthand that stands in for a tool call's start, args and end sequence. */
export type ToolCallChunkEvent = BaseEvent &
  Attributable & {
    readonly type: "TOOL_CALL_CHUNK";
    /** The call this chunk belongs to. */
    readonly toolCallId?: string;
    /** Which tool is being called, on the chunk that opens it. */
    readonly toolCallName?: string;
    /** The assistant message that holds this call. */
    readonly parentMessageId?: string;
    /** A fragment of the arguments. */
    readonly delta?: string;
  };

/** Carries what a tool returned. */
export type ToolCallResultEvent = BaseEvent &
  Attributable & {
    readonly type: "TOOL_CALL_RESULT";
    /** The tool message this result becomes. */
    readonly messageId: string;
    /** The call being answered. */
    readonly toolCallId: string;
    /** What the tool returned: either plain text, or an ordered list of parts, exactly as on the tool message this event mints. */
    readonly content: string | readonly ContentPart[];
    readonly role?: "tool";
  };

/** Replaces the agent state wholesale. */
export type StateSnapshotEvent = BaseEvent &
  Attributable & {
    readonly type: "STATE_SNAPSHOT";
    /** The complete new state. */
    readonly snapshot: State;
  };

/** Changes the agent state incrementally. */
export type StateDeltaEvent = BaseEvent &
  Attributable & {
    readonly type: "STATE_DELTA";
    /** The change, as an RFC 6902 patch against the current state. */
    readonly delta: JsonPatch;
  };

/** The complete set of messages the producer owns, in order. */
export type MessagesSnapshotEvent = BaseEvent & {
  readonly type: "MESSAGES_SNAPSHOT";
  /** The messages the producer is declaring, in order. */
  readonly messages: readonly Message[];
};

/** Reports structured progress that is not conversation content, such as a step a UI renders as its own widget. */
export type ActivitySnapshotEvent = BaseEvent &
  Attributable & {
    readonly type: "ACTIVITY_SNAPSHOT";
    /** The activity message this describes. */
    readonly messageId: string;
    /** What kind of activity this is. */
    readonly activityType: string;
    /** The activity's payload, open by key. */
    readonly content: Readonly<Record<string, unknown>>;
    /** Whether this snapshot overwrites the activity's existing content. */
    readonly replace?: boolean;
  };

/** Changes an activity message's content incrementally. */
export type ActivityDeltaEvent = BaseEvent &
  Attributable & {
    readonly type: "ACTIVITY_DELTA";
    /** The activity message being changed. */
    readonly messageId: string;
    /** What kind of activity this is. */
    readonly activityType: string;
    /** The change, as an RFC 6902 patch against the activity's content. */
    readonly patch: JsonPatch;
  };

/** Passes a provider-native event through untranslated, for consumers that need detail the protocol does not model. */
export type RawEvent = BaseEvent &
  Attributable & {
    readonly type: "RAW";
    /** The provider's own event. */
    readonly event: unknown;
    /** Which provider or framework the event came from. */
    readonly source?: string;
  };

/** The protocol's extension point for an application's own events. */
export type CustomEvent = {
  [Name in keyof CustomEvents & string]: BaseEvent &
    Attributable & {
      readonly type: "CUSTOM";
      /** What this custom event is. */
      readonly name: Name;
      /** The payload. */
      readonly value: CustomEvents[Name];
    };
}[keyof CustomEvents & string];

/** Opens a run. */
export type RunStartedEvent = BaseEvent & {
  readonly type: "RUN_STARTED";
  /** The conversation this run belongs to. */
  readonly threadId: string;
  /** Identifies this run. */
  readonly runId: string;
  /** The protocol version this producer speaks, such as "1.0" — the producer's own version, not an echo of the input's, which is what makes the pair a negotiation: each side declares itself and the consumer sees a downgrade the moment it happens. */
  readonly protocolVersion?: string;
  /** The run that spawned this one, when an agent invokes another agent as a separate run rather than as a subagent within one. */
  readonly parentRunId?: string;
  /** The request this run was started from, echoed back so a consumer that did not make the request can still see what the agent was asked. */
  readonly input?: RunAgentInput;
};

/** Closes a run that did not fail. */
export type RunFinishedEvent = BaseEvent & {
  readonly type: "RUN_FINISHED";
  /** The conversation this run belongs to. */
  readonly threadId: string;
  /** The run being closed. */
  readonly runId: string;
  /** The run's return value, if it has one. */
  readonly result?: unknown;
  /** Why the run ended. */
  readonly outcome?: RunFinishedOutcome;
  /** Token usage for the run, one entry per provider and model, so a run that invoked several models keeps them separate. */
  readonly usage?: readonly TokenUsage[];
};

/** Ends a run that failed. */
export type RunErrorEvent = BaseEvent & {
  readonly type: "RUN_ERROR";
  /** What went wrong, for a person to read. */
  readonly message: string;
  /** A machine-readable error code. */
  readonly code?: string;
  /** Token usage accrued before the failure, for a run that completed one or more model calls before dying. */
  readonly usage?: readonly TokenUsage[];
};

/** Opens a named step within a run, for producers whose frameworks have a step concept worth surfacing. */
export type StepStartedEvent = BaseEvent &
  Attributable & {
    readonly type: "STEP_STARTED";
    /** The step's name. */
    readonly stepName: string;
  };

/** Closes a named step. */
export type StepFinishedEvent = BaseEvent &
  Attributable & {
    readonly type: "STEP_FINISHED";
    /** The step being closed. */
    readonly stepName: string;
  };

/** Opens a span of reasoning. */
export type ReasoningStartEvent = BaseEvent &
  Attributable & {
    readonly type: "REASONING_START";
    /** The span being opened. */
    readonly messageId: string;
  };

/** Opens a streamed reasoning message. */
export type ReasoningMessageStartEvent = BaseEvent &
  Attributable & {
    readonly type: "REASONING_MESSAGE_START";
    /** The reasoning message this stream builds. */
    readonly messageId: string;
    readonly role: "reasoning";
  };

/** Appends a fragment to a streamed reasoning message. */
export type ReasoningMessageContentEvent = BaseEvent &
  Attributable & {
    readonly type: "REASONING_MESSAGE_CONTENT";
    /** The reasoning message this fragment belongs to. */
    readonly messageId: string;
    /** The fragment to append. */
    readonly delta: string;
  };

/** Closes a streamed reasoning message. */
export type ReasoningMessageEndEvent = BaseEvent &
  Attributable & {
    readonly type: "REASONING_MESSAGE_END";
    /** The reasoning message being closed. */
    readonly messageId: string;
  };

/** A shorthand that stands in for a reasoning message's start, content and end sequence. */
export type ReasoningMessageChunkEvent = BaseEvent &
  Attributable & {
    readonly type: "REASONING_MESSAGE_CHUNK";
    /** The reasoning message this chunk belongs to. */
    readonly messageId?: string;
    /** The fragment to append. */
    readonly delta?: string;
  };

/** Closes a span of reasoning. */
export type ReasoningEndEvent = BaseEvent &
  Attributable & {
    readonly type: "REASONING_END";
    /** The span being closed. */
    readonly messageId: string;
  };

/** Carries a provider's opaque, encrypted reasoning artefact, which a consumer stores and returns on a later turn without being able to read it. */
export type ReasoningEncryptedValueEvent = BaseEvent &
  Attributable & {
    readonly type: "REASONING_ENCRYPTED_VALUE";
    /** What kind of thing entityId names, which decides where the value is stored. */
    readonly subtype: ReasoningEncryptedValueSubtype;
    /** What the value belongs to: a message id or a tool call id, according to subtype. */
    readonly entityId: string;
    /** The provider's opaque artefact. */
    readonly encryptedValue: string;
  };

/** Announces that a subagent invocation has begun. */
export type SubagentStartedEvent = BaseEvent & {
  readonly type: "SUBAGENT_STARTED";
  /** The invocation being announced. */
  readonly subagentRunId: SubagentRunId;
  /** The subagent's name, which is reusable across invocations, unlike subagentRunId. */
  readonly name: string;
  /** What this subagent is for, for a consumer to display. */
  readonly description?: string;
  /** The subagent invocation that spawned this one, for nested delegation. */
  readonly parentSubagentRunId?: SubagentRunId;
  /** The tool call that spawned this subagent, for the pattern where agents are exposed to a model as tools. */
  readonly parentToolCallId?: string;
  /** The message that held the spawning tool call. */
  readonly parentMessageId?: string;
};

/** Ends a subagent invocation's segment of this run, either because the work completed or because it is suspended awaiting outside input. */
export type SubagentFinishedEvent = BaseEvent & {
  readonly type: "SUBAGENT_FINISHED";
  /** The invocation being closed. */
  readonly subagentRunId: SubagentRunId;
  /** The subagent's return value, if it has one. */
  readonly result?: unknown;
  /** Why the segment ended. */
  readonly outcome?: SubagentFinishedOutcome;
};

/** Reports that a subagent invocation failed. */
export type SubagentErrorEvent = BaseEvent & {
  readonly type: "SUBAGENT_ERROR";
  /** The invocation that failed. */
  readonly subagentRunId: SubagentRunId;
  /** What went wrong, for a person to read. */
  readonly message: string;
  /** A machine-readable error code. */
  readonly code?: string;
};

/** Instructions from the application developer. */
export type DeveloperMessage = Attributable & {
  /** Identifies the message within the conversation. */
  readonly id: string;
  readonly role: "developer";
  /** An optional display name for the author. */
  readonly name?: string;
  /** A provider's opaque artefact belonging to this message, stored by a consumer and returned on a later turn. */
  readonly encryptedValue?: string;
  /** Extra information attached to this message. */
  readonly metadata?: Metadata;
  /** The instructions. */
  readonly content: string;
};

/** Instructions from the system. */
export type SystemMessage = Attributable & {
  /** Identifies the message within the conversation. */
  readonly id: string;
  readonly role: "system";
  /** An optional display name for the author. */
  readonly name?: string;
  /** A provider's opaque artefact belonging to this message, stored by a consumer and returned on a later turn. */
  readonly encryptedValue?: string;
  /** Extra information attached to this message. */
  readonly metadata?: Metadata;
  /** The instructions. */
  readonly content: string;
};

/** A message from the agent. */
export type AssistantMessage = Attributable & {
  /** Identifies the message within the conversation. */
  readonly id: string;
  readonly role: "assistant";
  /** An optional display name for the author. */
  readonly name?: string;
  /** A provider's opaque artefact belonging to this message, stored by a consumer and returned on a later turn. */
  readonly encryptedValue?: string;
  /** Extra information attached to this message. */
  readonly metadata?: Metadata;
  /** What the agent said, if it said anything. */
  readonly content?: string;
  /** The tool calls this turn made. */
  readonly toolCalls?: readonly ToolCall[];
};

/** A message from the person using the application. */
export type UserMessage = Attributable & {
  /** Identifies the message within the conversation. */
  readonly id: string;
  readonly role: "user";
  /** An optional display name for the author. */
  readonly name?: string;
  /** A provider's opaque artefact belonging to this message, stored by a consumer and returned on a later turn. */
  readonly encryptedValue?: string;
  /** Extra information attached to this message. */
  readonly metadata?: Metadata;
  /** What the person sent: either plain text, or an ordered list of parts for a multimodal message. */
  readonly content: string | readonly ContentPart[];
};

/** What a tool returned, as a message in the conversation. */
export type ToolMessage = Attributable & {
  /** Identifies the message. */
  readonly id: string;
  readonly role: "tool";
  /** What the tool returned: either plain text, or an ordered list of parts. */
  readonly content: string | readonly ContentPart[];
  /** The call this answers. */
  readonly toolCallId: string;
  /** Why the tool failed, when it did. */
  readonly error?: string;
  /** A provider's opaque artefact belonging to this message. */
  readonly encryptedValue?: string;
  /** Extra information attached to this message. */
  readonly metadata?: Metadata;
};

/** Structured progress that is not conversation content, materialised as a message so it keeps its place in the sequence. */
export type ActivityMessage = Attributable & {
  /** Identifies the message. */
  readonly id: string;
  readonly role: "activity";
  /** What kind of activity this is. */
  readonly activityType: string;
  /** The activity's payload, open by key. */
  readonly content: Readonly<Record<string, unknown>>;
  /** Extra information attached to this message. */
  readonly metadata?: Metadata;
};

/** A span of the agent's reasoning, materialised as a message. */
export type ReasoningMessage = Attributable & {
  /** Identifies the message. */
  readonly id: string;
  readonly role: "reasoning";
  /** The reasoning text. */
  readonly content: string;
  /** A provider's opaque reasoning artefact belonging to this message. */
  readonly encryptedValue?: string;
  /** Extra information attached to this message. */
  readonly metadata?: Metadata;
};

/** A named piece of ambient information given to the agent for the run, distinct from the conversation. */
export type Context = {
  /** What this context is, for the agent to interpret. */
  readonly description: string;
  /** The context itself. */
  readonly value: string;
};

/** An answer to one interrupt, sent on the run that continues from it. */
export type ResumeEntry = {
  /** The interrupt being answered. */
  readonly interruptId: string;
  /** Whether the interrupt was answered or abandoned. */
  readonly status: "resolved" | "cancelled";
  /** The answer the agent asked for and will act on. */
  readonly payload?: unknown;
  /** Envelope information about the response, such as signatures or routing keys, as opposed to payload, which is the answer itself. */
  readonly metadata?: Metadata;
};

/** The roles a streamed text message may take. */
export type TextMessageRole = "developer" | "system" | "assistant" | "user";

/** One part of a message body: what a person sends in a user message, or what a tool returns in a tool message. */
export type ContentPart = TextPart | ImagePart | AudioPart | VideoPart | DocumentPart;

/** A JSON Patch document as defined by RFC 6902, referenced by STATE_DELTA.delta and ACTIVITY_DELTA.patch: an ordered sequence of operations applied to a target document. */
export type JsonPatch = readonly JsonPatchOperation[];

/** Why a run ended. */
export type RunFinishedOutcome = RunFinishedSuccessOutcome | RunFinishedInterruptOutcome | RunFinishedCancelledOutcome;

/** Token counts for one provider and model, in the protocol's own accounting: every count is either a total or a named part of one, so entries from different providers add up without double-counting. */
export type TokenUsage = {
  /** Which provider served the request. */
  readonly provider?: string;
  /** Which model served the request. */
  readonly model?: string;
  /** Every prompt token the call was charged for: tokens read from a provider cache, tokens written to one, and audio or other non-text input all count here. */
  readonly inputTokens?: number;
  /** Every generated token, reasoning included where the provider distinguishes it. */
  readonly outputTokens?: number;
  /** inputTokens plus outputTokens, under the accounting above. */
  readonly totalTokens?: number;
  /** Output tokens spent on reasoning, where the provider distinguishes them. */
  readonly reasoningTokens?: number;
  /** Input tokens read from a provider cache. */
  readonly cachedInputTokens?: number;
  /** Input tokens written to a provider cache on this call, where the provider distinguishes them. */
  readonly cacheWriteInputTokens?: number;
};

/** Whether a REASONING_ENCRYPTED_VALUE belongs to a message or to a tool call. */
export type ReasoningEncryptedValueSubtype = "tool-call" | "message";

/** Why a subagent's segment of a run ended. */
export type SubagentFinishedOutcome = SubagentFinishedSuccessOutcome | SubagentFinishedSuspendedOutcome;

/** A call an assistant message made. */
export type ToolCall = {
  /** Identifies the call. */
  readonly id: string;
  readonly type: "function";
  /** What is being called, and with what. */
  readonly function: FunctionCall;
  /** A provider's opaque artefact belonging to this call. */
  readonly encryptedValue?: string;
  /** Extra information attached to this call. */
  readonly metadata?: Metadata;
};

/** A text part. */
export type TextPart = {
  readonly type: "text";
  /** Identifies this part within its message. */
  readonly id?: string;
  /** The text. */
  readonly text: string;
  /** Extra information about this part. */
  readonly metadata?: unknown;
};

/** An image part. */
export type ImagePart = {
  readonly type: "image";
  /** Identifies this part within its message. */
  readonly id?: string;
  /** Where the image comes from. */
  readonly source: PartSource;
  /** Extra information about this part. */
  readonly metadata?: unknown;
};

/** An audio part. */
export type AudioPart = {
  readonly type: "audio";
  /** Identifies this part within its message. */
  readonly id?: string;
  /** Where the audio comes from. */
  readonly source: PartSource;
  /** Extra information about this part. */
  readonly metadata?: unknown;
};

/** A video part. */
export type VideoPart = {
  readonly type: "video";
  /** Identifies this part within its message. */
  readonly id?: string;
  /** Where the video comes from. */
  readonly source: PartSource;
  /** Extra information about this part. */
  readonly metadata?: unknown;
};

/** A document part. */
export type DocumentPart = {
  readonly type: "document";
  /** Identifies this part within its message. */
  readonly id?: string;
  /** Where the document comes from. */
  readonly source: PartSource;
  /** Extra information about this part. */
  readonly metadata?: unknown;
};

/** A single RFC 6902 operation. */
export type JsonPatchOperation =
  AddOperation | RemoveOperation | ReplaceOperation | MoveOperation | CopyOperation | TestOperation;

/** The run completed. */
export type RunFinishedSuccessOutcome = {
  readonly type: "success";
  /** The tool calls this run started and left unanswered — no TOOL_CALL_RESULT in the run — for the application to answer in the next input's messages, in the order they were made. */
  readonly pendingToolCallIds?: readonly string[];
};

/** The run is paused, waiting for something outside it. */
export type RunFinishedInterruptOutcome = {
  readonly type: "interrupt";
  /** What the run is waiting for. */
  readonly interrupts: readonly Interrupt[];
};

/** The run was stopped before it completed, by whoever was running it, and did not fail. */
export type RunFinishedCancelledOutcome = { readonly type: "cancelled" };

/** The subagent completed its work. */
export type SubagentFinishedSuccessOutcome = { readonly type: "success" };

/** The subagent is paused awaiting outside input. */
export type SubagentFinishedSuspendedOutcome = {
  readonly type: "suspended";
  /** The run-level interrupts this subagent raised itself. */
  readonly interruptIds?: readonly string[];
};

/** The name and arguments of a tool call. */
export type FunctionCall = {
  /** Which tool is being called. */
  readonly name: string;
  /** The arguments as a JSON string, not as parsed JSON. */
  readonly arguments: string;
};

/** Where a media part's bytes come from: carried inline, referenced by URL, or already at the provider under a handle it issued. */
export type PartSource = DataSource | UrlSource | FileSource;

/** Inserts value at path. */
export type AddOperation = {
  readonly op: "add";
  /** Where to insert the value. */
  readonly path: JsonPointer;
  /** The value to insert. */
  readonly value: unknown;
};

/** Removes the value at path. */
export type RemoveOperation = {
  readonly op: "remove";
  /** What to remove. */
  readonly path: JsonPointer;
};

/** Replaces the value at path. */
export type ReplaceOperation = {
  readonly op: "replace";
  /** What to replace. */
  readonly path: JsonPointer;
  /** The replacement. */
  readonly value: unknown;
};

/** Moves the value at from to path. */
export type MoveOperation = {
  readonly op: "move";
  /** Where the value is moved from. */
  readonly from: JsonPointer;
  /** Where the value is moved to. */
  readonly path: JsonPointer;
};

/** Copies the value at from to path. */
export type CopyOperation = {
  readonly op: "copy";
  /** Where the value is copied from. */
  readonly from: JsonPointer;
  /** Where the value is copied to. */
  readonly path: JsonPointer;
};

/** Asserts that the value at path equals value. */
export type TestOperation = {
  readonly op: "test";
  /** What to compare. */
  readonly path: JsonPointer;
  /** The value the target must equal. */
  readonly value: unknown;
};

/** Bytes carried inline. */
export type DataSource = {
  readonly type: "data";
  /** The bytes, base64-encoded. */
  readonly value: string;
  /** What the bytes are. */
  readonly mimeType: string;
};

/** Bytes referenced by URL, fetched by whoever needs them. */
export type UrlSource = {
  readonly type: "url";
  /** The URL. */
  readonly value: string;
  /** What the resource is, when the producer knows. */
  readonly mimeType?: string;
};

/** Bytes already at the provider, named by a handle the provider issued: an OpenAI or Anthropic file id, a Gemini file URI, a storage URL only that provider can read. */
export type FileSource = {
  readonly type: "file";
  /** The handle, exactly as the provider issued it. */
  readonly value: string;
  /** Who issued the handle, when the producer knows. */
  readonly provider?: string;
  /** What the file is, when the producer knows. */
  readonly mimeType?: string;
};

/** A JSON Pointer as defined by RFC 6901. */
export type JsonPointer = string;

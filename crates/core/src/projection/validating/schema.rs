//! Members of AG-UI's events and of what they hold, as the schemas of `@ag-ui/core` 1.0.0 have them. Where `@ag-ui/client` reads a
//! null as an absent member, because earlier releases wrote it so, null passes.

/// Kind of a value.
#[derive(Debug)]
pub(super) enum Kind {
    Any,
    /// Any value other than null.
    Present,
    Text,
    Bool,
    /// A whole number that every JSON reader keeps.
    Whole,
    /// A whole number from 0.
    Count,
    /// An object of any members.
    Open,
    Word(&'static [&'static str]),
    /// A string that is a JSON Pointer (RFC 6901).
    Pointer,
    List(&'static Kind),
    /// A list with at least one item.
    Filled(&'static Kind),
    Object(&'static [Member]),
    /// Null, or a value of this kind.
    Nullable(&'static Kind),
    /// A string, or a value of this kind.
    Either(&'static Kind),
    /// An object whose members depend on one of them.
    Tagged(&'static str, &'static [(&'static str, &'static [Member])]),
}

impl Kind {
    /// Name of the kind, for a message.
    pub fn name(&self) -> String {
        match self {
            Self::Any => "a value".to_owned(),
            Self::Present => "a value other than null".to_owned(),
            Self::Text => "a string".to_owned(),
            Self::Bool => "true or false".to_owned(),
            Self::Whole => "a whole number".to_owned(),
            Self::Count => "a whole number from 0".to_owned(),
            Self::Open | Self::Object(_) | Self::Tagged(..) => "an object".to_owned(),
            Self::Word([word]) => format!("\"{word}\""),
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::Pointer => "a JSON Pointer".to_owned(),
            Self::List(_) => "an array".to_owned(),
            Self::Filled(_) => "an array with an item".to_owned(),
            Self::Nullable(other) => other.name(),
            Self::Either(other) => format!("a string or {}", other.name()),
        }
    }
}

/// Member of an object.
#[derive(Debug)]
pub(super) struct Member {
    pub name: &'static str,
    pub required: bool,
    pub kind: Kind,
}

const fn must(name: &'static str, kind: Kind) -> Member {
    Member { name, required: true, kind }
}

const fn may(name: &'static str, kind: Kind) -> Member {
    Member { name, required: false, kind }
}

/// Members of every event, then those of its type.
macro_rules! events {
    ($($name:literal => [$($member:expr),* $(,)?];)+) => {
        /// Members of the events of a type; `None` for a type that AG-UI does not have.
        pub(super) fn event(name: &str) -> Option<&'static [Member]> {
            match name {
                $($name => {
                    const MEMBERS: &[Member] = &[
                        may("timestamp", Kind::Whole), may("rawEvent", Kind::Any), may("metadata", Kind::Open),
                        $($member),*
                    ];
                    Some(MEMBERS)
                })+
                _ => None,
            }
        }
    };
}

const SUBAGENT: &str = "subagentRunId";
const ROLES: Kind = Kind::Word(&["developer", "system", "assistant", "user"]);
const METADATA: Member = may("metadata", Kind::Open);

const SOURCES: &[(&str, &[Member])] = &[
    ("data", &[must("value", Kind::Text), must("mimeType", Kind::Text)]),
    ("url", &[must("value", Kind::Text), may("mimeType", Kind::Text)]),
    ("file", &[must("value", Kind::Text), may("provider", Kind::Text), may("mimeType", Kind::Text)]),
];
const TEXT_PART: &[Member] = &[may("id", Kind::Text), must("text", Kind::Text), may("metadata", Kind::Present)];

/// Parts of a content, whose media have metadata of this kind.
macro_rules! parts {
    ($metadata:expr) => {{
        const MEDIA: &[Member] =
            &[may("id", Kind::Text), must("source", Kind::Tagged("type", SOURCES)), may("metadata", $metadata)];
        const PARTS: Kind = Kind::List(&Kind::Tagged(
            "type",
            &[("text", TEXT_PART), ("image", MEDIA), ("audio", MEDIA), ("video", MEDIA), ("document", MEDIA)],
        ));
        Kind::Either(&PARTS)
    }};
}
/// Content of a message.
const CONTENT: Kind = parts!(Kind::Any);
/// Content of a result, as an event.
const RESULT: Kind = parts!(Kind::Present);

const CALL: &[Member] = &[
    must("id", Kind::Text),
    must("type", Kind::Word(&["function"])),
    must("function", Kind::Object(&[must("name", Kind::Text), must("arguments", Kind::Text)])),
    may("encryptedValue", Kind::Text),
    METADATA,
];

/// Members of a message of a role, beside those that messages of all roles have.
macro_rules! message {
    ($($member:expr),* $(,)?) => {
        &[may(SUBAGENT, Kind::Text), must("id", Kind::Text), METADATA, $($member),*]
    };
}
const INSTRUCTION: &[Member] =
    message!(may("name", Kind::Text), may("encryptedValue", Kind::Text), must("content", Kind::Text));
const MESSAGES: Kind = Kind::List(&Kind::Tagged(
    "role",
    &[
        ("developer", INSTRUCTION),
        ("system", INSTRUCTION),
        (
            "assistant",
            message!(
                may("name", Kind::Text),
                may("encryptedValue", Kind::Text),
                may("content", Kind::Text),
                may("toolCalls", Kind::List(&Kind::Object(CALL))),
            ),
        ),
        ("user", message!(may("name", Kind::Text), may("encryptedValue", Kind::Text), must("content", CONTENT))),
        (
            "tool",
            message!(
                must("content", CONTENT),
                must("toolCallId", Kind::Text),
                may("error", Kind::Text),
                may("encryptedValue", Kind::Text),
            ),
        ),
        ("activity", message!(must("activityType", Kind::Text), must("content", Kind::Open))),
        ("reasoning", message!(must("content", Kind::Text), may("encryptedValue", Kind::Text))),
    ],
));

const WITH_VALUE: &[Member] = &[must("path", Kind::Pointer), must("value", Kind::Any)];
const FROM: &[Member] = &[must("from", Kind::Pointer), must("path", Kind::Pointer)];
const PATCH: Kind = Kind::List(&Kind::Tagged(
    "op",
    &[
        ("add", WITH_VALUE),
        ("remove", &[must("path", Kind::Pointer)]),
        ("replace", WITH_VALUE),
        ("move", FROM),
        ("copy", FROM),
        ("test", WITH_VALUE),
    ],
));

const INPUT: &[Member] = &[
    must("threadId", Kind::Text),
    must("runId", Kind::Text),
    may("protocolVersion", Kind::Text),
    may("parentRunId", Kind::Text),
    must("messages", MESSAGES),
    may(
        "tools",
        Kind::List(&Kind::Object(&[
            must("name", Kind::Text),
            must("description", Kind::Text),
            may("parameters", Kind::Any),
            METADATA,
        ])),
    ),
    may("context", Kind::List(&Kind::Object(&[must("description", Kind::Text), must("value", Kind::Text)]))),
    may("forwardedProps", Kind::Any),
    may(
        "resume",
        Kind::List(&Kind::Object(&[
            must("interruptId", Kind::Text),
            must("status", Kind::Word(&["resolved", "cancelled"])),
            may("payload", Kind::Any),
            METADATA,
        ])),
    ),
];

const INTERRUPT: &[Member] = &[
    may(SUBAGENT, Kind::Text),
    must("id", Kind::Text),
    must("reason", Kind::Text),
    may("message", Kind::Text),
    may("toolCallId", Kind::Text),
    may("responseSchema", Kind::Open),
    may("expiresAt", Kind::Text),
    METADATA,
];
const OUTCOME: Kind = Kind::Tagged(
    "type",
    &[
        ("success", &[may("pendingToolCallIds", Kind::List(&Kind::Text))]),
        ("interrupt", &[must("interrupts", Kind::Filled(&Kind::Object(INTERRUPT)))]),
        ("cancelled", &[]),
    ],
);
const USAGE: Kind = Kind::List(&Kind::Object(&[
    may("provider", Kind::Text),
    may("model", Kind::Text),
    may("inputTokens", Kind::Count),
    may("outputTokens", Kind::Count),
    may("totalTokens", Kind::Count),
    may("reasoningTokens", Kind::Count),
    may("cachedInputTokens", Kind::Count),
    may("cacheWriteInputTokens", Kind::Count),
]));
const SUBAGENT_OUTCOME: Kind =
    Kind::Tagged("type", &[("success", &[]), ("suspended", &[may("interruptIds", Kind::List(&Kind::Text))])]);

events! {
    "TEXT_MESSAGE_START" => [may(SUBAGENT, Kind::Text), must("messageId", Kind::Text), may("role", ROLES), may("name", Kind::Text)];
    "TEXT_MESSAGE_CONTENT" => [may(SUBAGENT, Kind::Text), must("messageId", Kind::Text), must("delta", Kind::Text)];
    "TEXT_MESSAGE_END" => [may(SUBAGENT, Kind::Text), must("messageId", Kind::Text)];
    "TEXT_MESSAGE_CHUNK" => [
        may(SUBAGENT, Kind::Text), may("messageId", Kind::Text), may("role", ROLES), may("delta", Kind::Text),
        may("name", Kind::Text),
    ];
    "TOOL_CALL_START" => [
        may(SUBAGENT, Kind::Text), must("toolCallId", Kind::Text), must("toolCallName", Kind::Text),
        may("parentMessageId", Kind::Nullable(&Kind::Text)),
    ];
    "TOOL_CALL_ARGS" => [may(SUBAGENT, Kind::Text), must("toolCallId", Kind::Text), must("delta", Kind::Text)];
    "TOOL_CALL_END" => [may(SUBAGENT, Kind::Text), must("toolCallId", Kind::Text)];
    "TOOL_CALL_CHUNK" => [
        may(SUBAGENT, Kind::Text), may("toolCallId", Kind::Text), may("toolCallName", Kind::Text),
        may("parentMessageId", Kind::Nullable(&Kind::Text)), may("delta", Kind::Text),
    ];
    "TOOL_CALL_RESULT" => [
        may(SUBAGENT, Kind::Text), must("messageId", Kind::Text), must("toolCallId", Kind::Text), must("content", RESULT),
        may("role", Kind::Word(&["tool"])),
    ];
    "STATE_SNAPSHOT" => [may(SUBAGENT, Kind::Text), must("snapshot", Kind::Any)];
    "STATE_DELTA" => [may(SUBAGENT, Kind::Text), must("delta", PATCH)];
    "MESSAGES_SNAPSHOT" => [must("messages", MESSAGES)];
    "ACTIVITY_SNAPSHOT" => [
        may(SUBAGENT, Kind::Text), must("messageId", Kind::Text), must("activityType", Kind::Text), must("content", Kind::Open),
        may("replace", Kind::Bool),
    ];
    "ACTIVITY_DELTA" => [
        may(SUBAGENT, Kind::Text), must("messageId", Kind::Text), must("activityType", Kind::Text), must("patch", PATCH),
    ];
    "RAW" => [may(SUBAGENT, Kind::Text), must("event", Kind::Any), may("source", Kind::Text)];
    "CUSTOM" => [may(SUBAGENT, Kind::Text), must("name", Kind::Text), must("value", Kind::Any)];
    "RUN_STARTED" => [
        must("threadId", Kind::Text), must("runId", Kind::Text), may("protocolVersion", Kind::Text),
        may("parentRunId", Kind::Text), may("input", Kind::Object(INPUT)),
    ];
    "RUN_FINISHED" => [
        must("threadId", Kind::Text), must("runId", Kind::Text), may("result", Kind::Any), may("outcome", Kind::Nullable(&OUTCOME)),
        may("usage", USAGE),
    ];
    "RUN_ERROR" => [must("message", Kind::Text), may("code", Kind::Text), may("usage", USAGE)];
    "STEP_STARTED" => [may(SUBAGENT, Kind::Text), must("stepName", Kind::Text)];
    "STEP_FINISHED" => [may(SUBAGENT, Kind::Text), must("stepName", Kind::Text)];
    "REASONING_START" => [may(SUBAGENT, Kind::Text), must("messageId", Kind::Text)];
    "REASONING_MESSAGE_START" => [
        may(SUBAGENT, Kind::Text), must("messageId", Kind::Text), must("role", Kind::Word(&["reasoning"])),
    ];
    "REASONING_MESSAGE_CONTENT" => [may(SUBAGENT, Kind::Text), must("messageId", Kind::Text), must("delta", Kind::Text)];
    "REASONING_MESSAGE_END" => [may(SUBAGENT, Kind::Text), must("messageId", Kind::Text)];
    "REASONING_MESSAGE_CHUNK" => [may(SUBAGENT, Kind::Text), may("messageId", Kind::Text), may("delta", Kind::Text)];
    "REASONING_END" => [may(SUBAGENT, Kind::Text), must("messageId", Kind::Text)];
    "REASONING_ENCRYPTED_VALUE" => [
        may(SUBAGENT, Kind::Text), must("subtype", Kind::Word(&["tool-call", "message"])), must("entityId", Kind::Text),
        must("encryptedValue", Kind::Text),
    ];
    "SUBAGENT_STARTED" => [
        must(SUBAGENT, Kind::Text), must("name", Kind::Text), may("description", Kind::Text),
        may("parentSubagentRunId", Kind::Text), may("parentToolCallId", Kind::Text), may("parentMessageId", Kind::Text),
    ];
    "SUBAGENT_FINISHED" => [must(SUBAGENT, Kind::Text), may("result", Kind::Any), may("outcome", SUBAGENT_OUTCOME)];
    "SUBAGENT_ERROR" => [must(SUBAGENT, Kind::Text), must("message", Kind::Text), may("code", Kind::Text)];
}

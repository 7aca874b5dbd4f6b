//! Rules for the input of untrusted clients: what of it is stored, what refers to the log, what is ignored.
//!
//! Stock clients send everything again with each run, so nothing that they send is refused: what a client may not say is
//! ignored, and counted.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use threadline_core::{
    agent::{Agent, ClientMay, HistorySource, RuleSubject, SystemMessages, ToolResults},
    json,
    projection::conversation::{Conversation, Message},
};

use super::{message::Sent, messages::text_of};
use crate::agents::{reading::whole, source::Trust};

/// Rules for the input of one client to one agent.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    pub trust: Trust,
    /// Input that the client may supply; `None` if the client is trusted.
    pub(super) may: Option<&'a ClientMay>,
    /// Names of tools that the client must not supply.
    pub(super) reserved: &'a [String],
}

impl<'a> Rules<'a> {
    /// Rules for a trusted client.
    pub fn believed() -> Self {
        Self { trust: Trust::Key, may: None, reserved: &[] }
    }

    /// Rules for an untrusted client that may supply this.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn untrusted(may: &'a ClientMay) -> Self {
        Self { trust: Trust::Client, may: Some(may), reserved: &[] }
    }

    /// Rules by which the client's messages are sorted; `None` if its messages are trusted.
    pub(super) fn referring(self) -> Option<&'a ClientMay> {
        self.may.filter(|may| may.history == HistorySource::Reference)
    }

    /// Rules for a client of this trust.
    pub fn of(agent: &'a Agent, trust: Trust) -> Self {
        let concerned = trust == Trust::Client || agent.client_may.subject == RuleSubject::All;
        let (trust, may) = if concerned { (Trust::Client, Some(&agent.client_may)) } else { (trust, None) };
        Self { trust, may, reserved: if concerned { &agent.reserved_tools } else { &[] } }
    }
}

/// Parts of an input that were ignored, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ignored(BTreeMap<&'static str, usize>);

impl Ignored {
    /// Kinds that can be ignored, and their names: a role of messages, or a member of the input.
    pub const KINDS: [&str; 8] =
        ["activity", "assistant", "forwardedProps", "reasoning", "state", "system", "tool", "tools"];

    pub(super) fn count(&mut self, kind: &'static str, number: usize) {
        if number > 0 {
            *self.0.entry(kind).or_default() += number;
        }
    }

    /// True if nothing was ignored.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Kinds with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.0.iter().map(|(kind, number)| (*kind, *number))
    }
}

impl fmt::Display for Ignored {
    /// Writes each kind with its number: `assistant=1, tool=2`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (kind, number)) in self.iter().enumerate() {
            write!(out, "{}{kind}={number}", if index > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// Messages of an input, sorted by the rules.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    /// New messages that the conversation takes, in order.
    pub taken: Vec<Sent>,
    /// Messages of the user and of tools that count: taken ones, and known ones.
    pub heard: Vec<Sent>,
    /// Ids of known messages that the client sent, without those that hold instructions.
    pub known: HashSet<String>,
    /// Edits: ids of known messages of the user, each with the id of the stored or new message that takes its place.
    pub edits: Vec<(String, String)>,
    /// Messages that become context: role and text.
    pub moved: Vec<(String, String)>,
    /// Messages that were ignored.
    pub ignored: Ignored,
}

/// Sorts the messages of an untrusted client.
pub(super) fn sort(messages: Vec<Sent>, may: &ClientMay, conversation: &Conversation) -> Result<Sorted, String> {
    let mut sorted = Sorted::default();
    let mut answered = HashSet::new();
    let open: HashSet<String> = match may.results {
        // A walk over all messages, for the few agents that are asked for it.
        ToolResults::Any => conversation.pending_tool_calls().into_iter().collect(),
        ToolResults::Own => HashSet::new(),
    };
    for (index, message) in messages.into_iter().enumerate() {
        if conversation.contains(&message.id) {
            sorted.refer(message, conversation);
            continue;
        }
        if let Some(name) = message.disguised() {
            return Err(format!("message {index} has a member {name:?} twice, or not written as AG-UI defines it"));
        }
        match message.role.as_str() {
            "user" => sorted.take(message),
            "tool" => {
                let call = message.tool_call().unwrap_or_default();
                let waits = conversation.awaits_front_end(&call) || open.contains(&call);
                if waits && answered.insert(call) {
                    sorted.take(message);
                } else {
                    sorted.ignored.count("tool", 1);
                }
            }
            "system" | "developer" => match may.system {
                SystemMessages::Context => {
                    let text = json::string_member(&whole(&message.text), "content").unwrap_or_default();
                    sorted.moved.push((message.role, text));
                }
                SystemMessages::Keep => sorted.take(message),
                SystemMessages::Ignore => sorted.ignored.count("system", 1),
            },
            "assistant" => sorted.ignored.count("assistant", 1),
            "reasoning" => sorted.ignored.count("reasoning", 1),
            _ => sorted.ignored.count("activity", 1),
        }
    }
    sorted.edit(conversation);
    Ok(sorted)
}

impl Sorted {
    fn take(&mut self, message: Sent) {
        self.heard.push(message.clone());
        self.taken.push(message);
    }

    /// Notes a known message. An edit that the thread has takes the place of the message that it edits.
    fn refer(&mut self, message: Sent, conversation: &Conversation) {
        if is_instruction(&message.role) {
            return;
        }
        let edit = is_edited(&message, conversation).then(|| message.id_of_edit());
        match edit.filter(|edit| conversation.contains(edit)) {
            Some(edit) => {
                self.known.insert(edit.clone());
                self.edits.push((message.id.clone(), edit.clone()));
                self.heard.push(message.renamed(edit));
            }
            None => {
                self.known.insert(message.id.clone());
                self.heard.push(message);
            }
        }
    }

    /// Takes the last message as a new one if it is a known message of the user with other content.
    fn edit(&mut self, conversation: &Conversation) {
        let Some(last) = self.heard.last().filter(|last| self.known.contains(&last.id)) else { return };
        if !is_edited(last, conversation) {
            return;
        }
        let edited = last.renamed(last.id_of_edit());
        self.known.remove(&last.id);
        self.edits.push((last.id.clone(), edited.id.clone()));
        self.heard.pop();
        self.take(edited);
    }

    /// Part of the conversation that the agent is given before what is taken.
    pub fn window(&self, conversation: &Conversation) -> Window {
        let said = || conversation.messages().filter(|message| message.role() != "activity").enumerate();
        let place = |id: &str| said().find(|(_, message)| message.id() == id).map(|(at, _)| at);
        let is_known = |message: &Message| self.known.contains(message.id());
        let (mut end, mut skipped) = (None, Vec::new());
        for (old, new) in &self.edits {
            match (place(old), place(new)) {
                (Some(old), Some(new)) => skipped.push((old, new)),
                // An edit that is taken now ends the part before the message that it edits.
                (old, _) => end = old,
            }
        }
        let edited: HashSet<&str> = self.edits.iter().map(|(old, _)| &**old).collect();
        let all = conversation.messages().len();
        let (from, end) = if has_history(conversation, |id| self.known.contains(id) || edited.contains(id)) {
            let last = said().filter(|(_, message)| is_known(message)).last().map(|(at, _)| at + 1);
            let end = end.or(last).unwrap_or(0);
            let from = said().find(|(_, message)| is_known(message)).map(|(at, _)| at);
            (from.unwrap_or(end).min(end), end)
        } else {
            (0, end.unwrap_or(all))
        };
        Window { from, end, skipped }
    }
}

/// True if a client that knows these messages has the history, and not only new messages: it knows the first message, or
/// one of an agent. Some clients send instructions with every request, which do not show that.
pub(super) fn has_history(conversation: &Conversation, knows: impl Fn(&str) -> bool) -> bool {
    let is_said = |role: &str| role != "activity" && !is_instruction(role);
    let mut said = conversation.messages().filter(|message| is_said(message.role())).enumerate();
    said.any(|(at, message)| (at == 0 || message.role() == "assistant") && knows(message.id()))
}

/// True for a message of the user that the thread has with other content.
fn is_edited(message: &Sent, conversation: &Conversation) -> bool {
    let stored = conversation.message(&message.id).filter(|stored| stored.role() == "user" && message.role == "user");
    stored.is_some_and(|stored| !message.says(&text_of(stored)))
}

/// Piece of a conversation, as positions among its messages without the activities. Instructions belong to it wherever
/// they stand: a client cannot leave them out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Window {
    pub from: usize,
    pub end: usize,
    /// Parts without: from a message to its edit, which follows later.
    pub skipped: Vec<(usize, usize)>,
}

impl Window {
    /// The complete conversation.
    pub const ALL: Self = Self { from: 0, end: usize::MAX, skipped: Vec::new() };

    /// Messages of the piece, in order.
    pub fn messages<'a>(&'a self, conversation: &'a Conversation) -> impl Iterator<Item = &'a Message> {
        let said = conversation.messages().filter(|message| message.role() != "activity").enumerate();
        let skipped = |at: usize| self.skipped.iter().any(|(from, end)| (*from..*end).contains(&at));
        let inside = move |at: usize| (self.from..self.end).contains(&at) && !skipped(at);
        said.filter(move |(at, message)| inside(*at) || is_instruction(message.role())).map(|(_, message)| message)
    }
}

/// True for the roles that instruct the model.
pub(super) fn is_instruction(role: &str) -> bool {
    matches!(role, "system" | "developer")
}

/// The client's context, a JSON array, with the messages that became context; `None` if there are none.
pub(super) fn with_moved(context: &str, moved: &[(String, String)]) -> Option<String> {
    if moved.is_empty() {
        return None;
    }
    let entry = |(role, text): &(String, String)| {
        let description = json::quoted(&format!("message of role {role} from the user's page"));
        format!("{{\"description\":{description},\"value\":{}}}", json::quoted(text))
    };
    let entries = moved.iter().map(entry).collect::<Vec<_>>().join(",");
    let before = context.trim_ascii_end().strip_suffix(']').unwrap_or("[").trim_ascii_end();
    let comma = if before.ends_with('[') { "" } else { "," };
    Some(format!("{before}{comma}{entries}]"))
}

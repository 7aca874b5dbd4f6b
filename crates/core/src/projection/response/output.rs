//! Output of a response while its events are read: items, those that are open, and the events that they give.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write,
};

use super::{
    event::Sink,
    halves,
    ids::ItemId,
    item::{Item, Kind, State},
};
use crate::{
    json,
    limits::{MAX_OPEN_PARTS, MAX_RESPONSE_BYTES, MAX_RESPONSE_RESULT_BYTES},
    projection::parts::{self, TextIds},
};

/// Approximate size of an item in bytes, without its text, id and name.
const ITEM_BYTES: usize = 256;

/// Part of the log that an open item shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown<'a> {
    Text(parts::Kind, &'a str),
    Call(&'a str),
}

/// Item that is open: the part that it shows, and its place in the output.
#[derive(Debug, Clone)]
struct Open {
    /// Kind of the text; `None` for a call.
    text: Option<parts::Kind>,
    id: String,
    place: usize,
    /// True if the text or the arguments are complete: the result of a call may still come.
    is_complete: bool,
}

/// Output of a response.
#[derive(Debug, Clone, Default)]
pub(super) struct Output {
    items: Vec<Item>,
    /// Open items, oldest first.
    open: Vec<Open>,
    ids: TextIds,
    /// Places of the tool calls by their ids.
    calls: HashMap<String, usize>,
    /// Interrupts that an item asks about.
    asked: HashSet<String>,
    /// Approximate size of the items in bytes.
    bytes: usize,
    /// Bytes of the results of calls.
    result_bytes: usize,
    is_cut: bool,
}

impl Output {
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// True if a piece was left out, because the response would have been too large.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// True if a message of the log has given a text.
    pub fn has_text(&self, message: &str) -> bool {
        self.ids.has(parts::Kind::Text, message)
    }

    /// Name and arguments of a tool call: a JSON string token, and the content of one.
    pub fn call(&self, id: &str) -> Option<(&str, &str)> {
        let item = self.items.get(*self.calls.get(id)?)?;
        match &item.kind {
            Kind::Call { name, .. } | Kind::Hosted { name, .. } => Some((name, &item.text)),
            _ => None,
        }
    }

    /// Adds a piece of a text, a JSON string; begins an item if none is open for the text.
    pub fn append_text(&mut self, kind: parts::Kind, message: &str, delta: &str, sink: &mut Sink<'_>) {
        let place = match self.position(Shown::Text(kind, message)) {
            Some(at) => self.open[at].place,
            None if self.makes_room(message.len(), sink) => self.begin_text(kind, message, sink),
            None => return,
        };
        self.append(place, delta, sink);
    }

    /// Begins a tool call, which the client or the agent itself executes. A call with the id of an earlier one is left out, because
    /// results name calls by their ids.
    pub fn begin_call(&mut self, id: &str, name: &str, is_clients: bool, sink: &mut Sink<'_>) {
        if self.calls.contains_key(id) || !self.makes_room(2 * id.len() + name.len(), sink) {
            return;
        }
        let name = json::quoted(name);
        let place = if is_clients {
            self.add(Kind::Call { call: json::quoted(id), name }, ItemId::Call(id), sink)
        } else {
            self.add(Kind::Hosted { name, result: None }, ItemId::Hosted(id), sink)
        };
        self.calls.insert(id.to_owned(), place);
        self.open.push(Open { text: None, id: id.to_owned(), place, is_complete: false });
        if !is_clients {
            self.progress("response.mcp_call.in_progress", place, sink);
        }
    }

    /// Adds a piece of the arguments of an open call, a JSON string.
    pub fn append_args(&mut self, id: &str, delta: &str, sink: &mut Sink<'_>) {
        if let Some(at) = self.position(Shown::Call(id))
            && !self.open[at].is_complete
        {
            self.append(self.open[at].place, delta, sink);
        }
    }

    /// Ends a text, or the arguments of a call, if they are open. A call that the agent executes goes on until its result.
    pub fn end(&mut self, shown: Shown<'_>, sink: &mut Sink<'_>) {
        let Some(at) = self.position(shown) else { return };
        let place = self.open[at].place;
        if !matches!(self.items[place].kind, Kind::Hosted { .. }) {
            let open = self.open.remove(at);
            self.close(&open, State::Done, sink);
        } else if !std::mem::replace(&mut self.open[at].is_complete, true) {
            self.complete(place, State::Done, sink);
        }
    }

    /// Gives the result of a call that the agent executes, the content of a JSON string, and ends the call.
    pub fn result(&mut self, id: &str, content: &str, sink: &mut Sink<'_>) {
        let Some(at) = self.position(Shown::Call(id)) else { return };
        let mut content = halves::whole(content);
        if self.result_bytes + content.len() > MAX_RESPONSE_RESULT_BYTES {
            content = format!("[result of {} bytes, left out]", content.len()).into();
        }
        self.result_bytes += content.len();
        if let Kind::Hosted { result, .. } = &mut self.items[self.open[at].place].kind {
            *result = Some(content.into_owned());
        }
        let open = self.open.remove(at);
        self.close(&open, State::Done, sink);
    }

    /// Ends all open items.
    pub fn end_all(&mut self, state: State, sink: &mut Sink<'_>) {
        for open in std::mem::take(&mut self.open) {
            self.close(&open, state, sink);
        }
    }

    /// Adds a complete request for an approval. Of several interrupts with one id, only the first one gives a request. `name` is a JSON
    /// string token, `arguments` the content of one.
    pub fn ask(&mut self, interrupt: &str, name: String, arguments: String, sink: &mut Sink<'_>) {
        if self.asked.contains(interrupt) || !self.makes_room(interrupt.len() + name.len() + arguments.len(), sink) {
            return;
        }
        self.asked.insert(interrupt.to_owned());
        let place = self.items.len();
        let id = json::quoted(&ItemId::Approval(interrupt).to_string());
        self.items.push(Item {
            kind: Kind::Approval { name },
            id,
            text: arguments,
            half: String::new(),
            state: State::Done,
        });
        self.item_event("response.output_item.added", place, sink);
        self.item_event("response.output_item.done", place, sink);
    }

    fn begin_text(&mut self, kind: parts::Kind, message: &str, sink: &mut Sink<'_>) -> usize {
        let id = self.ids.next(kind, message);
        let place = match kind {
            parts::Kind::Text => self.add(Kind::Message, ItemId::Message(&id), sink),
            parts::Kind::Reasoning => self.add(Kind::Reasoning, ItemId::Reasoning(&id), sink),
        };
        self.open.push(Open { text: Some(kind), id: message.to_owned(), place, is_complete: false });
        let item = &self.items[place];
        sink.event("response.content_part.added", |json| {
            write_place(item, place, true, json);
            json.push_str(",\"part\":");
            item.write_part(json, "");
        });
        place
    }

    fn add(&mut self, kind: Kind, id: ItemId<'_>, sink: &mut Sink<'_>) -> usize {
        let place = self.items.len();
        let id = json::quoted(&id.to_string());
        self.items.push(Item { kind, id, text: String::new(), half: String::new(), state: State::Open });
        self.item_event("response.output_item.added", place, sink);
        place
    }

    fn append(&mut self, place: usize, delta: &str, sink: &mut Sink<'_>) {
        let Some(piece) = delta.strip_prefix('"').and_then(|delta| delta.strip_suffix('"')) else { return };
        let piece = halves::join(&mut self.items[place].half, piece);
        if piece.is_empty() || !self.takes(piece.len()) {
            return;
        }
        let item = &mut self.items[place];
        item.text.push_str(&piece);
        let (kind, more) = match item.kind {
            Kind::Message => ("response.output_text.delta", ",\"logprobs\":[]"),
            Kind::Reasoning => ("response.reasoning_text.delta", ""),
            Kind::Hosted { .. } => ("response.mcp_call_arguments.delta", ""),
            Kind::Call { .. } | Kind::Approval { .. } => ("response.function_call_arguments.delta", ""),
        };
        sink.event(kind, |json| {
            write_place(item, place, item.has_parts(), json);
            _ = write!(json, ",\"delta\":\"{piece}\"{more}");
        });
    }

    /// Ends an item that is no longer among the open ones.
    fn close(&mut self, open: &Open, state: State, sink: &mut Sink<'_>) {
        let state = if self.is_cut { State::Cut } else { state };
        if !open.is_complete {
            self.complete(open.place, state, sink);
        }
        let item = &mut self.items[open.place];
        item.state = state;
        if let Kind::Hosted { result, .. } = &item.kind {
            if result.is_none() {
                item.state = State::Cut;
            } else {
                self.progress("response.mcp_call.completed", open.place, sink);
            }
        }
        self.item_event("response.output_item.done", open.place, sink);
    }

    /// Gives the events of a text or of arguments that are complete.
    fn complete(&mut self, place: usize, state: State, sink: &mut Sink<'_>) {
        if !std::mem::take(&mut self.items[place].half).is_empty() {
            self.append(place, "\"\\ufffd\"", sink);
        }
        if state == State::Done && self.items[place].text.is_empty() && !self.items[place].has_parts() {
            // Clients parse the arguments as JSON.
            self.append(place, "\"{}\"", sink);
        }
        let item = &self.items[place];
        let (kind, member, more) = match item.kind {
            Kind::Message => ("response.output_text.done", "text", ",\"logprobs\":[]"),
            Kind::Reasoning => ("response.reasoning_text.done", "text", ""),
            Kind::Hosted { .. } => ("response.mcp_call_arguments.done", "arguments", ""),
            Kind::Call { .. } | Kind::Approval { .. } => ("response.function_call_arguments.done", "arguments", ""),
        };
        sink.event(kind, |json| {
            write_place(item, place, item.has_parts(), json);
            _ = write!(json, ",\"{member}\":\"{}\"{more}", item.text);
        });
        if item.has_parts() {
            sink.event("response.content_part.done", |json| {
                write_place(item, place, true, json);
                json.push_str(",\"part\":");
                item.write_part(json, &item.text);
            });
        }
    }

    fn progress(&self, kind: &'static str, place: usize, sink: &mut Sink<'_>) {
        let item = &self.items[place];
        sink.event(kind, |json| write_place(item, place, false, json));
    }

    fn item_event(&self, kind: &'static str, place: usize, sink: &mut Sink<'_>) {
        let item = &self.items[place];
        sink.event(kind, |json| {
            _ = write!(json, ",\"output_index\":{place},\"item\":");
            if item.state == State::Open {
                item.write_added(json);
            } else {
                item.write(json);
            }
        });
    }

    fn position(&self, shown: Shown<'_>) -> Option<usize> {
        self.open.iter().rposition(|open| match shown {
            Shown::Text(kind, id) => open.text == Some(kind) && open.id == id,
            Shown::Call(id) => open.text.is_none() && open.id == id,
        })
    }

    /// Makes room for an item with names of this size. False if the response is too large.
    fn makes_room(&mut self, bytes: usize, sink: &mut Sink<'_>) -> bool {
        if !self.takes(ITEM_BYTES + bytes) {
            return false;
        }
        if self.open.len() >= MAX_OPEN_PARTS {
            let oldest = self.open.remove(0);
            self.close(&oldest, State::Done, sink);
        }
        true
    }

    /// Bytes of all items.
    pub fn bytes(&self) -> usize {
        self.bytes + self.result_bytes
    }

    /// Counts bytes. False if they make the response too large, and for all bytes after that.
    fn takes(&mut self, bytes: usize) -> bool {
        self.is_cut |= self.bytes + bytes > MAX_RESPONSE_BYTES;
        if !self.is_cut {
            self.bytes += bytes;
        }
        !self.is_cut
    }
}

/// Writes the members that name an item, and its one part.
fn write_place(item: &Item, place: usize, has_part: bool, json: &mut String) {
    let part = if has_part { ",\"content_index\":0" } else { "" };
    _ = write!(json, ",\"item_id\":{},\"output_index\":{place}{part}", item.id);
}

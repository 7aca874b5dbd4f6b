//! Messages in order, indexed by their ids and by the ids of their tool calls.
//!
//! A linked list over a vector: a tool's result goes behind the call that it answers, at any place, and must not cost
//! more in a long conversation than in a short one. Ids are meant to be unique but need not be; the client takes the
//! first message of an id in order, so places carry numbers that order any two of them.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::message::{Message, ToolCall};

/// Index of a message in the vector, which stays the same until the list is rebuilt.
pub(super) type Slot = usize;

/// Distance between the numbers of appended places, and of places inserted between two others.
const APPENDED: u64 = 1 << 32;
const BETWEEN: u64 = 1 << 20;

#[derive(Debug, Clone)]
struct MessageIndex {
    message: Message,
    next: Option<Slot>,
    order: u64,
    /// Last of the tool messages that follow, as far as known: (`List::generation`, place).
    results: Option<(u64, Slot)>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct List {
    places: Vec<MessageIndex>,
    first: Option<Slot>,
    last: Option<Slot>,
    by_id: HashMap<Box<str>, Slot>,
    calls: HashMap<Box<str>, (Slot, usize)>,
    /// Later calls of an id that occurs twice, in order; calls whose message was replaced may still be among them.
    more_calls: HashMap<Box<str>, VecDeque<(Slot, usize)>>,
    /// Number of changes that may have ended a row of tool messages.
    generation: u64,
    /// Result of the last search: deltas of one message come in rows.
    found: Option<Slot>,
    called: Option<(Slot, usize)>,
}

impl List {
    pub fn of(messages: impl IntoIterator<Item = Message>) -> Self {
        let mut list = Self::default();
        for message in messages {
            list.push(message);
        }
        list
    }

    pub fn contains(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }

    /// First message with the id.
    pub fn with_id(&self, id: &str) -> Option<&Message> {
        self.by_id.get(id).map(|slot| self.get(*slot))
    }

    pub fn get(&self, slot: Slot) -> &Message {
        &self.places[slot].message
    }

    /// Message for changes of any member but its id, its tool calls and (see [`List::replace`]) its role.
    pub fn get_mut(&mut self, slot: Slot) -> &mut Message {
        let message = &mut self.places[slot].message;
        message.exact = None;
        message
    }

    pub fn iter(&self) -> Iter<'_> {
        Iter { list: self, next: self.first, left: self.places.len() }
    }

    /// Moves the messages out, in order.
    pub fn take(&mut self) -> Vec<Message> {
        let mut order = Vec::with_capacity(self.places.len());
        let mut next = self.first;
        while let Some(slot) = next {
            order.push(slot);
            next = self.places[slot].next;
        }
        let mut places: Vec<_> = std::mem::take(self).places.into_iter().map(|place| Some(place.message)).collect();
        order.into_iter().filter_map(|slot| places[slot].take()).collect()
    }

    /// Finds the first message with the id.
    pub fn find(&mut self, id: &str) -> Option<Slot> {
        if let Some(slot) = self.found.filter(|slot| *self.places[*slot].message.id == *id) {
            return Some(slot);
        }
        self.found = self.by_id.get(id).copied().or(self.found);
        self.found.filter(|slot| *self.places[*slot].message.id == *id)
    }

    /// Finds the first message with the tool call, and the index of the call in it.
    pub fn find_call(&mut self, id: &str) -> Option<(Slot, usize)> {
        if let Some(called) = self.called.filter(|called| is_call(&self.places, *called, id)) {
            return Some(called);
        }
        self.called = self.calls.get(id).copied().or(self.called);
        self.called.filter(|called| is_call(&self.places, *called, id))
    }

    /// First tool call with the id.
    pub fn call(&self, id: &str) -> Option<&ToolCall> {
        let (slot, at) = *self.calls.get(id)?;
        self.get(slot).tool_calls.as_deref()?.get(at)
    }

    /// Ids of all tool calls.
    pub fn call_ids(&self) -> BTreeSet<Box<str>> {
        self.calls.keys().cloned().collect()
    }

    pub fn call_mut(&mut self, (slot, at): (Slot, usize)) -> Option<&mut ToolCall> {
        self.get_mut(slot).tool_calls.as_mut()?.get_mut(at)
    }

    /// Appends a message at the end.
    pub fn push(&mut self, message: Message) -> Slot {
        let order = self.last.map_or(0, |last| self.places[last].order.saturating_add(APPENDED));
        let slot = self.add(message, order, None);
        match self.last {
            Some(last) => self.places[last].next = Some(slot),
            None => self.first = Some(slot),
        }
        self.last = Some(slot);
        self.index(slot);
        slot
    }

    /// Inserts a message behind `owner` and the tool messages that follow it.
    pub fn push_result(&mut self, owner: Slot, message: Message) -> Slot {
        let known = self.places[owner].results.filter(|(generation, _)| *generation == self.generation);
        let mut before = known.map_or(owner, |(_, slot)| slot);
        while let Some(next) = self.places[before].next.filter(|next| &*self.places[*next].message.role == "tool") {
            before = next;
        }
        let slot = match self.places[before].next {
            None => self.push(message),
            Some(next) => {
                let order = match self.between(before, next) {
                    Some(order) => order,
                    None => {
                        self.number();
                        self.between(before, next).unwrap_or(self.places[before].order)
                    }
                };
                let slot = self.add(message, order, Some(next));
                self.places[before].next = Some(slot);
                self.index(slot);
                slot
            }
        };
        self.places[owner].results = Some((self.generation, slot));
        slot
    }

    /// Adds a tool call to a message.
    pub fn push_call(&mut self, slot: Slot, call: ToolCall) {
        let calls = self.get_mut(slot).tool_calls.get_or_insert_default();
        let (id, at) = (call.id.clone(), calls.len());
        calls.push(call);
        self.index_call(id, (slot, at));
    }

    /// Replaces a message by another one of the same id.
    pub fn replace(&mut self, slot: Slot, message: Message) {
        let old = std::mem::replace(&mut self.places[slot].message, message);
        self.generation += u64::from(&*old.role == "tool");
        self.called = None;
        for call in old.tool_calls.into_iter().flatten() {
            if self.calls.get(&call.id).is_none_or(|(first, _)| *first != slot) {
                continue;
            }
            self.calls.remove(&call.id);
            let later = self.more_calls.get_mut(&call.id);
            let next = later.and_then(|later| {
                std::iter::from_fn(|| later.pop_front()).find(|next| is_call(&self.places, *next, &call.id))
            });
            if let Some(next) = next {
                self.calls.insert(call.id, next);
            }
        }
    }

    fn add(&mut self, message: Message, order: u64, next: Option<Slot>) -> Slot {
        self.places.push(MessageIndex { message, next, order, results: None });
        self.places.len() - 1
    }

    /// Number between two neighbours; `None` if there is none.
    fn between(&self, before: Slot, next: Slot) -> Option<u64> {
        let (low, high) = (self.places[before].order, self.places[next].order);
        let step = (high.saturating_sub(low) / 2).min(BETWEEN);
        (step > 0).then_some(low + step)
    }

    fn number(&mut self) {
        let (mut next, mut order) = (self.first, 0u64);
        while let Some(slot) = next {
            self.places[slot].order = order;
            order = order.saturating_add(APPENDED);
            next = self.places[slot].next;
        }
    }

    fn index(&mut self, slot: Slot) {
        let id = self.places[slot].message.id.clone();
        let places = &self.places;
        let first = self.by_id.entry(id).or_insert(slot);
        if places[slot].order < places[*first].order {
            *first = slot;
            self.found = None;
        }
        let calls = self.places[slot].message.tool_calls.as_deref().unwrap_or_default();
        for (at, id) in calls.iter().map(|call| call.id.clone()).enumerate().collect::<Vec<_>>() {
            self.index_call(id, (slot, at));
        }
    }

    fn index_call(&mut self, id: Box<str>, called: (Slot, usize)) {
        // Messages with calls are added at the end, so the first one met is the first in order.
        if *self.calls.entry(id.clone()).or_insert(called) != called {
            self.more_calls.entry(id).or_default().push_back(called);
        }
    }
}

fn is_call(places: &[MessageIndex], (slot, at): (Slot, usize), id: &str) -> bool {
    let calls = places[slot].message.tool_calls.as_deref().unwrap_or_default();
    calls.get(at).is_some_and(|call| *call.id == *id)
}

/// Iterator over messages in order.
#[derive(Debug)]
pub(super) struct Iter<'a> {
    list: &'a List,
    next: Option<Slot>,
    left: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Message;
    fn next(&mut self) -> Option<&'a Message> {
        let place = &self.list.places[self.next?];
        (self.next, self.left) = (place.next, self.left - 1);
        Some(&place.message)
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Iter<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::projection::conversation::message::Content;

    fn ids(list: &List) -> Vec<&str> {
        list.iter().map(Message::id).collect()
    }

    #[test]
    fn results_follow_their_call_in_order_and_the_first_of_an_id_is_found() {
        let message = |id: &str, role: &str| Message::new(id, role, Content::Absent);
        let mut list = List::of([message("a", "assistant"), message("x", "user"), message("b", "user")]);
        assert_eq!(list.find("x"), Some(1));
        let mut want = vec!["a".to_owned()];
        for number in 0..20_000 {
            let id = if number == 7_000 { "x".to_owned() } else { format!("t{number}") };
            list.push_result(0, message(&id, "tool"));
            want.push(id);
        }
        want.extend(["x".to_owned(), "b".to_owned()]);
        assert_eq!(ids(&list), want);
        assert_eq!(list.iter().len(), want.len());
        assert_eq!(list.find("x").map(|slot| list.get(slot).role()), Some("tool"));
        let taken: Vec<_> = list.clone().take().into_iter().map(|message| message.id.to_string()).collect();
        assert_eq!(taken, want);
    }

    #[test]
    fn a_call_in_a_replaced_message_is_gone() {
        let mut list = List::of([Message::new("a", "assistant", Content::Absent)]);
        list.push_call(0, ToolCall::new("c", "f".to_owned()));
        let other = list.push(Message::new("b", "assistant", Content::Absent));
        list.push_call(other, ToolCall::new("c", "g".to_owned()));
        assert_eq!(list.find_call("c"), Some((0, 0)));
        list.replace(0, Message::new("a", "activity", Content::Absent));
        assert_eq!(list.find_call("c"), Some((1, 0)));
        list.replace(1, Message::new("b", "activity", Content::Absent));
        assert_eq!(list.find_call("c"), None);
    }
}

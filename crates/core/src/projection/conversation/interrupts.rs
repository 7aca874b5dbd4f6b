//! Interrupts: requests that a conversation waits on, and their answers.
//!
//! An interrupt is open from the RUN_FINISHED that requests it to the RUN_FINISHED of a run whose RUN_STARTED answers
//! it (`input.resume`). No other event settles it: not a run that answers none, whichever client has pushed it, nor one
//! that fails.

use std::collections::{BTreeSet, HashSet, VecDeque};

use serde_json::Value;

use super::{
    event::{elements, members, required},
    patch, text,
    text::Wtf8,
};
use crate::{
    Timestamp,
    interrupt::has_passed,
    limits::{MAX_ID_BYTES, MAX_INPUT_ITEMS, MAX_OPEN_INTERRUPT_BYTES, MAX_OPEN_INTERRUPTS, MAX_SETTLED_INTERRUPTS},
};

/// Interrupts of a thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Interrupts {
    /// Interrupts that wait for an answer, oldest first.
    pub(super) open: Vec<Value>,
    /// Ids of the open interrupts that the run in progress answers.
    pub(super) answered: BTreeSet<Box<str>>,
    /// Ids of interrupts that were answered, the newest last, see [`MAX_SETTLED_INTERRUPTS`].
    pub(super) settled: VecDeque<Box<str>>,
}

impl Interrupts {
    /// Ids of the open interrupts. An interrupt without an id cannot be answered, and is not among them.
    pub(super) fn open_ids(&self) -> impl Iterator<Item = &str> {
        self.open.iter().filter_map(id)
    }

    /// Ids of the open interrupts whose `expiresAt` has passed. An `expiresAt` that is not an RFC 3339 time never passes.
    pub(super) fn expired_ids(&self, now: Timestamp) -> impl Iterator<Item = &str> {
        let has_expired = move |interrupt: &&Value| {
            interrupt.get("expiresAt").and_then(Value::as_str).is_some_and(|until| has_passed(until, now))
        };
        self.open.iter().filter(has_expired).filter_map(id)
    }

    /// Notes the answers in the input of a run that begins; they count once the run has finished.
    pub(super) fn run_started(&mut self, input: Option<&str>) {
        let resume = input.and_then(members).and_then(|input| {
            // Of several members with one name the last counts.
            input.0.into_iter().rev().find(|(name, _)| name == "resume").map(|(_, token)| token)
        });
        let named: BTreeSet<_> = resume.and_then(elements).into_iter().flatten().filter_map(answer).collect();
        self.answered = self.open_ids().filter(|id| named.contains(*id)).map(Box::from).collect();
    }

    /// Drops the answers of a run that has failed, which did not process them.
    pub(super) fn run_failed(&mut self) {
        self.answered.clear();
    }

    /// Settles the interrupts that a finished run has answered, and opens those that it requests, unless they were open
    /// before. An interrupt that cannot be named in an answer is open until the next run has finished. Of more than
    /// [`MAX_INPUT_ITEMS`] the oldest stay, since an input answers no more.
    pub(super) fn run_finished(&mut self, outcome: Option<&str>) {
        let answered = std::mem::take(&mut self.answered);
        let before = std::mem::take(&mut self.open);
        let mut bytes = 0;
        let left = before.into_iter().filter(|interrupt| {
            id(interrupt).is_some_and(|id| id.len() <= MAX_ID_BYTES && !answered.contains(id)) && {
                bytes += patch::size(interrupt);
                bytes <= MAX_OPEN_INTERRUPT_BYTES
            }
        });
        self.open = left.take(MAX_OPEN_INTERRUPTS).collect();
        let known: HashSet<String> = self.open_ids().map(str::to_owned).collect();
        self.open.extend(asked(outcome).into_iter().filter(|new| id(new).is_none_or(|id| !known.contains(id))));
        self.open.truncate(MAX_INPUT_ITEMS);
        let open: HashSet<&str> = self.open.iter().filter_map(id).collect();
        // Agents may use an id again: the interrupt then waits again.
        self.settled.retain(|id| !open.contains(&**id));
        self.settled.extend(answered.into_iter().filter(|id| id.len() <= MAX_ID_BYTES && !open.contains(&**id)));
        let beyond = self.settled.len().saturating_sub(MAX_SETTLED_INTERRUPTS);
        self.settled.drain(..beyond);
    }
}

fn id(interrupt: &Value) -> Option<&str> {
    interrupt.get("id").and_then(Value::as_str)
}

/// Id of the interrupt that an entry of `resume` answers.
fn answer(entry: &str) -> Option<String> {
    let entry = members(entry)?.0;
    let text = |wanted: &str| {
        let (_, token) = entry.iter().rev().find(|(name, _)| name == wanted)?;
        required(Some(token)).ok().map(Wtf8::into_string)
    };
    matches!(text("status")?.as_str(), "resolved" | "cancelled").then(|| text("interruptId"))?
}

/// Interrupts of an outcome; none if the outcome is of another type.
fn asked(outcome: Option<&str>) -> Vec<Value> {
    let Some(Value::Object(mut outcome)) = outcome.and_then(text::value) else { return Vec::new() };
    if outcome.get("type").and_then(Value::as_str) != Some("interrupt") {
        return Vec::new();
    }
    match outcome.remove("interrupts") {
        Some(Value::Array(mut interrupts)) => {
            interrupts.retain_mut(|interrupt| match interrupt {
                Value::Object(members) => {
                    // As in messages, `null` reads as absent.
                    members.retain(|name, value| name != "subagentRunId" || !value.is_null());
                    true
                }
                _ => false,
            });
            interrupts
        }
        _ => Vec::new(),
    }
}

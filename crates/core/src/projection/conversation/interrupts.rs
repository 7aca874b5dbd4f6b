//! Interrupts: what a conversation waits for, and what settles it.
//!
//! An interrupt is open from the RUN_FINISHED that asks for it to the RUN_FINISHED of a run whose RUN_STARTED answers it
//! (`input.resume`). Nothing else settles it: not a run that answers nothing, whoever has pushed it, nor one that fails.

use std::collections::{BTreeSet, HashSet, VecDeque};

use serde_json::Value;

use super::{
    event::{elements, members, required},
    patch, text,
    text::Wtf8,
};
use crate::limits::{MAX_ID_BYTES, MAX_OPEN_INTERRUPT_BYTES, MAX_OPEN_INTERRUPTS, MAX_SETTLED_INTERRUPTS};

/// The interrupts of a thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Interrupts {
    /// Those that wait for an answer, oldest first.
    pub(super) open: Vec<Value>,
    /// Ids of those among them that the run under way answers.
    pub(super) answered: BTreeSet<Box<str>>,
    /// Ids of interrupts that were answered, the newest last, see [`MAX_SETTLED_INTERRUPTS`].
    pub(super) settled: VecDeque<Box<str>>,
}

impl Interrupts {
    /// Ids of the open ones. One without an id can be answered by nobody, and is not among them.
    pub(super) fn open_ids(&self) -> impl Iterator<Item = &str> {
        self.open.iter().filter_map(id)
    }

    /// A run begins: what its input answers counts once it has finished.
    pub(super) fn run_started(&mut self, input: Option<&str>) {
        let resume = input.and_then(members).and_then(|input| {
            // The last of several members with one name counts.
            input.0.into_iter().rev().find(|(name, _)| name == "resume").map(|(_, token)| token)
        });
        let named: BTreeSet<_> = resume.and_then(elements).into_iter().flatten().filter_map(answer).collect();
        self.answered = self.open_ids().filter(|id| named.contains(*id)).map(Box::from).collect();
    }

    /// A run has failed: what it answered was not dealt with.
    pub(super) fn run_failed(&mut self) {
        self.answered.clear();
    }

    /// A run has finished: what it answered is settled, and what it asks for is open, unless it was before. One that cannot be
    /// named in an answer is open until the next run has finished.
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
        let open: HashSet<&str> = self.open.iter().filter_map(id).collect();
        // Agents may use an id again: then it waits again.
        self.settled.retain(|id| !open.contains(&**id));
        self.settled.extend(answered.into_iter().filter(|id| id.len() <= MAX_ID_BYTES && !open.contains(&**id)));
        let beyond = self.settled.len().saturating_sub(MAX_SETTLED_INTERRUPTS);
        self.settled.drain(..beyond);
    }
}

fn id(interrupt: &Value) -> Option<&str> {
    interrupt.get("id").and_then(Value::as_str)
}

/// The interrupt that an entry of `resume` answers.
fn answer(entry: &str) -> Option<String> {
    let entry = members(entry)?.0;
    let text = |wanted: &str| {
        let (_, token) = entry.iter().rev().find(|(name, _)| name == wanted)?;
        required(Some(token)).ok().map(Wtf8::into_string)
    };
    matches!(text("status")?.as_str(), "resolved" | "cancelled").then(|| text("interruptId"))?
}

/// The interrupts of an outcome; none if it is another one.
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

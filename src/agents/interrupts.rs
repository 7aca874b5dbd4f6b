//! Open interrupts, and the answers to them that a run must carry.
//!
//! AG-UI requires that the input of a run answers every open interrupt of its thread, and that a duplicate answer does
//! no harm (<https://docs.ag-ui.com/concepts/interrupts>, "Contract rules"). Many agents do not check; the log has the
//! facts. The content of an answer (`payload`) and its time (`expiresAt`) are between the client and the agent.

use std::collections::HashSet;

use super::{
    AgentError,
    reading::{items, whole},
};
use threadline_core::projection::conversation::Conversation;

/// Most interrupt ids in a refusal.
const NAMED: usize = 16;
/// Longest part of each such id, in bytes.
const NAMED_BYTES: usize = 256;

/// Reason why a run cannot start in the current state of its thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterruptError {
    /// Open interrupts that the input does not answer.
    Open(Vec<String>),
    /// Interrupts that the input answers and that are no longer open.
    Settled(Vec<String>),
}

impl InterruptError {
    /// Ids of the interrupts concerned: at most `NAMED` of them, each cut to `NAMED_BYTES` bytes.
    pub fn interrupts(&self) -> Vec<&str> {
        let (Self::Open(ids) | Self::Settled(ids)) = self;
        ids.iter().take(NAMED).map(|id| &id[..id.floor_char_boundary(NAMED_BYTES)]).collect()
    }
}

impl std::fmt::Display for InterruptError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ids = self.interrupts().join(", ");
        match self {
            Self::Open(_) => write!(out, "`resume` has no entry for these open interrupts: {ids}"),
            Self::Settled(_) => write!(out, "`resume` answers interrupts that are no longer open: {ids}"),
        }
    }
}

/// Interrupts that a client answers: the member `resume` of its input, validated.
#[derive(Debug, Default)]
pub(super) struct Answered(HashSet<String>);

impl Answered {
    /// Reads a JSON array of AG-UI's ResumeEntry.
    pub(super) fn read(resume: Option<&str>) -> Result<Self, AgentError> {
        let invalid = |index: usize, what: &str| AgentError::InvalidInput(format!("resume entry {index} {what}"));
        let resume = resume.map(whole).unwrap_or_default();
        let mut answered = HashSet::new();
        for (index, entry) in items(&resume).into_iter().enumerate() {
            let Some(id) = entry.text("interruptId") else {
                return Err(invalid(index, "has no interruptId"));
            };
            if !matches!(entry.text("status").as_deref(), Some("resolved" | "cancelled")) {
                return Err(invalid(index, "must have the status resolved or cancelled"));
            }
            if !answered.insert(id) {
                return Err(invalid(index, "answers the same interrupt as an earlier entry"));
            }
        }
        Ok(Self(answered))
    }

    /// True if no interrupt is answered.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks the answers against the open interrupts. An interrupt that the log never had is left to the agent,
    /// because it may come from before the log.
    pub(super) fn check(&self, conversation: &Conversation) -> Result<(), InterruptError> {
        let is_missing = |id: &&str| !self.0.contains(*id);
        let open: Vec<_> = conversation.open_interrupts().filter(is_missing).map(str::to_owned).collect();
        if !open.is_empty() {
            return Err(InterruptError::Open(open));
        }
        let is_answered = |id: &&str| self.0.contains(*id);
        let settled: Vec<_> = conversation.settled_interrupts().filter(is_answered).map(str::to_owned).collect();
        if settled.is_empty() { Ok(()) } else { Err(InterruptError::Settled(settled)) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answered(resume: Value) -> Result<Answered, AgentError> {
        Answered::read(Some(&resume.to_string()))
    }

    fn finished(ids: &[&str]) -> Vec<u8> {
        let interrupts: Vec<_> = ids.iter().map(|id| json!({ "id": id, "reason": "r" })).collect();
        let outcome = json!({ "type": "interrupt", "interrupts": interrupts });
        json!({ "type": "RUN_FINISHED", "outcome": outcome }).to_string().into_bytes()
    }

    fn answers(ids: &[&str]) -> Vec<u8> {
        let resume: Vec<_> = ids.iter().map(|id| json!({ "interruptId": id, "status": "resolved" })).collect();
        json!({ "type": "RUN_STARTED", "input": { "resume": resume } }).to_string().into_bytes()
    }

    #[test]
    fn every_open_interrupt_is_to_be_answered_and_none_that_was() {
        let mut conversation = Conversation::default();
        let check = |resume: Value, conversation: &Conversation| answered(resume).expect("entries").check(conversation);
        let yes = |id: &str| json!({ "interruptId": id, "status": "resolved", "payload": 1 });
        let no = |id: &str| json!({ "interruptId": id, "status": "cancelled" });
        assert_eq!(check(json!([]), &conversation), Ok(()));
        assert_eq!(check(json!([yes("from before")]), &conversation), Ok(()));
        conversation.observe(&finished(&["a", "b"]));
        assert_eq!(
            Answered::read(None).expect("none").check(&conversation),
            Err(InterruptError::Open(vec!["a".into(), "b".into()]))
        );
        assert_eq!(check(json!([yes("a")]), &conversation), Err(InterruptError::Open(vec!["b".into()])));
        assert_eq!(check(json!([no("b"), yes("a"), yes("c")]), &conversation), Ok(()));
        conversation.observe(&answers(&["a", "b"]));
        conversation.observe(&finished(&["c"]));
        assert_eq!(
            check(json!([yes("c"), yes("b"), yes("a")]), &conversation),
            Err(InterruptError::Settled(vec!["a".into(), "b".into()]))
        );
        assert_eq!(check(json!([yes("c")]), &conversation), Ok(()));
        conversation.observe(&answers(&["c"]));
        // Lone surrogates become the same replacement character, whatever their origin.
        conversation
            .observe(br#"{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"\ud800"}]}}"#);
        let half = Answered::read(Some(r#"[{"interruptId":"\ud800","status":"cancelled"}]"#)).expect("entries");
        assert_eq!(half.check(&conversation), Ok(()));
    }

    #[test]
    fn an_answer_without_an_interrupt_is_refused() {
        for bad in [
            json!(["a"]),
            json!([{}]),
            json!([{ "interruptId": "a" }]),
            json!([{ "interruptId": 7, "status": "resolved" }]),
            json!([{ "interruptId": "a", "status": "perhaps" }]),
            json!([{ "interruptId": "a", "status": "resolved" }, { "interruptId": "a", "status": "cancelled" }]),
        ] {
            assert!(matches!(answered(bad.clone()), Err(AgentError::InvalidInput(_))), "{bad}");
        }
    }

    #[test]
    fn a_refusal_names_a_few_of_many() {
        let many = InterruptError::Open((0..1_000).map(|at| at.to_string()).collect());
        assert_eq!(many.interrupts().len(), NAMED);
        let long = InterruptError::Settled(vec!["é".repeat(NAMED_BYTES)]);
        assert_eq!(long.interrupts(), ["é".repeat(NAMED_BYTES / 2)]);
        assert!(many.to_string().ends_with("0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15"), "{many}");
    }
}

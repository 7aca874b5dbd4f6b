//! Open interrupts, and the answers to them that a run must carry.
//!
//! AG-UI requires that the input of a run answers every open interrupt of its thread, and that a duplicate answer does
//! no harm (<https://docs.ag-ui.com/concepts/interrupts>, "Contract rules"). Many agents do not check; the log has the
//! facts. The content of an answer (`payload`) is between the client and the agent. An interrupt that has expired
//! (`expiresAt`) can only be cancelled, and does not hold up its thread: the server cancels it in the next run.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use threadline_core::{Timestamp, event::SERVER_MEMBER, json, projection::conversation::Conversation};

use super::{
    AgentError,
    reading::{Object, items, whole},
};

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
    /// Interrupts that the input answers and that are not open, although only open ones may be answered.
    Unknown(Vec<String>),
    /// Interrupts that the input resolves and whose `expiresAt` has passed.
    Expired(Vec<String>),
}

impl InterruptError {
    /// Ids of the interrupts concerned: at most `NAMED` of them, each cut to `NAMED_BYTES` bytes.
    pub fn interrupts(&self) -> Vec<&str> {
        let (Self::Open(ids) | Self::Settled(ids) | Self::Unknown(ids) | Self::Expired(ids)) = self;
        ids.iter().take(NAMED).map(|id| &id[..id.floor_char_boundary(NAMED_BYTES)]).collect()
    }
}

impl std::fmt::Display for InterruptError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ids = self.interrupts().join(", ");
        match self {
            Self::Open(_) => write!(out, "`resume` has no entry for these open interrupts: {ids}"),
            Self::Settled(_) => write!(out, "`resume` answers interrupts that are no longer open: {ids}"),
            Self::Unknown(_) => write!(out, "the thread has no open interrupts with these ids: {ids}"),
            Self::Expired(_) => write!(out, "`resume` resolves interrupts that have expired: {ids}"),
        }
    }
}

/// Interrupts that a run answers: the member `resume` of its input, validated.
#[derive(Debug, Default)]
pub(super) struct Answered {
    /// Answered interrupts by id: true if the entry resolves, false if it cancels.
    entries: HashMap<String, bool>,
    /// Expired interrupts that the input does not answer. The server cancels them.
    expired: Vec<String>,
    /// Expired interrupts that the input resolves.
    late: Vec<String>,
}

impl Answered {
    /// Reads a JSON array of AG-UI's ResumeEntry.
    pub(super) fn read(resume: Option<&str>) -> Result<Self, AgentError> {
        let invalid = |index: usize, what: &str| AgentError::InvalidInput(format!("resume entry {index} {what}"));
        let resume = resume.map(whole).unwrap_or_default();
        let mut entries = HashMap::new();
        for (index, entry) in items(&resume).into_iter().enumerate() {
            let Some(id) = entry.text("interruptId") else {
                return Err(invalid(index, "has no interruptId"));
            };
            let resolves = match entry.text("status").as_deref() {
                Some("resolved") => true,
                Some("cancelled") => false,
                _ => return Err(invalid(index, "must have the status resolved or cancelled")),
            };
            if entries.insert(id, resolves).is_some() {
                return Err(invalid(index, "answers the same interrupt as an earlier entry"));
            }
        }
        Ok(Self { entries, ..Self::default() })
    }

    /// True if the client answers no interrupt.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Notes which of the open interrupts have expired.
    pub(super) fn expire(&mut self, conversation: &Conversation, now: Timestamp) {
        for id in conversation.expired_interrupts(now) {
            match self.entries.get(id) {
                None => self.expired.push(id.to_owned()),
                Some(true) => self.late.push(id.to_owned()),
                Some(false) => {}
            }
        }
    }

    /// Entries of the client (`of_client`, a JSON array), followed by those with which the server cancels expired interrupts.
    /// `None` if there are neither.
    pub(super) fn resume<'a>(&self, of_client: Option<&'a str>) -> Option<Cow<'a, str>> {
        if self.expired.is_empty() {
            return of_client.map(Cow::Borrowed);
        }
        let readable = of_client.map(whole).unwrap_or_default();
        let own = self.expired.iter().map(|id| cancellation(id));
        let all: Vec<_> = items(&readable).iter().map(|entry| entry.0.to_owned()).chain(own).collect();
        Some(Cow::Owned(format!("[{}]", all.join(","))))
    }

    /// Refuses answers to all but open interrupts.
    pub(super) fn check_open(&self, conversation: &Conversation) -> Result<(), InterruptError> {
        let open: HashSet<&str> = conversation.open_interrupts().collect();
        let mut unknown: Vec<_> = self.entries.keys().filter(|id| !open.contains(id.as_str())).cloned().collect();
        unknown.sort();
        if unknown.is_empty() { Ok(()) } else { Err(InterruptError::Unknown(unknown)) }
    }

    /// Checks the answers against the open interrupts. An interrupt that the log never had is left to the agent,
    /// because it may come from before the log.
    pub(super) fn check(&self, conversation: &Conversation) -> Result<(), InterruptError> {
        let expired: HashSet<&str> = self.expired.iter().map(String::as_str).collect();
        let is_missing = |id: &&str| !self.entries.contains_key(*id) && !expired.contains(id);
        let open: Vec<_> = conversation.open_interrupts().filter(is_missing).map(str::to_owned).collect();
        if !open.is_empty() {
            return Err(InterruptError::Open(open));
        }
        let is_answered = |id: &&str| self.entries.contains_key(*id);
        let settled: Vec<_> = conversation.settled_interrupts().filter(is_answered).map(str::to_owned).collect();
        if !settled.is_empty() {
            return Err(InterruptError::Settled(settled));
        }
        if self.late.is_empty() { Ok(()) } else { Err(InterruptError::Expired(self.late.clone())) }
    }
}

/// Entry with which the server cancels an interrupt that has expired.
fn cancellation(id: &str) -> String {
    let id = json::quoted(id);
    format!(
        "{{\"interruptId\":{id},\"status\":\"cancelled\",\"metadata\":{{\"{SERVER_MEMBER}\":{{\"expired\":true}}}}}}"
    )
}

/// Entries of the client in a stored `resume`, without those of the server.
pub(super) fn of_client(stored: &str) -> Cow<'_, str> {
    let entries = items(stored);
    let is_own = |entry: &&Object<'_>| entry.text("interruptId").is_some_and(|id| entry.0 == cancellation(&id));
    if !entries.iter().any(|entry| is_own(&entry)) {
        return Cow::Borrowed(stored);
    }
    let kept: Vec<_> = entries.iter().filter(|entry| !is_own(entry)).map(|entry| entry.0).collect();
    Cow::Owned(format!("[{}]", kept.join(",")))
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

    fn expiring(until: &[(&str, &str)]) -> Vec<u8> {
        let interrupts: Vec<_> = until.iter().map(|(id, at)| json!({ "id": id, "expiresAt": at })).collect();
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
    fn an_expired_interrupt_is_cancelled_by_the_server_and_resolved_by_none() {
        let now = Timestamp::from_rfc3339("2026-01-01T00:00:00Z").expect("a time");
        let mut conversation = Conversation::default();
        let (past, future) = ("2025-12-31T23:59:59+00:00", "2026-01-01T00:00:00.001Z");
        conversation.observe(&expiring(&[
            ("a", past),
            ("b", future),
            ("c", "soon"),
            ("d", "2026-01-01T01:00:00+01:00"),
        ]));
        let resume = |entries: Value| {
            let text = entries.to_string();
            let mut answered = Answered::read(Some(&text)).expect("entries");
            answered.expire(&conversation, now);
            let check = answered.check(&conversation);
            check
                .map(|()| serde_json::from_str::<Value>(&answered.resume(Some(&text)).expect("answers")).expect("JSON"))
        };
        let entry = |id: &str, status: &str| json!({ "interruptId": id, "status": status });
        let own = |id: &str| json!({ "interruptId": id, "status": "cancelled", "metadata": { "threadline": { "expired": true } } });
        assert_eq!(resume(json!([])), Err(InterruptError::Open(vec!["b".into(), "c".into()])));
        let (b, c) = (entry("b", "resolved"), entry("c", "cancelled"));
        assert_eq!(resume(json!([b, c])), Ok(json!([b, c, own("a"), own("d")])));
        assert_eq!(resume(json!([b, c, entry("a", "resolved")])), Err(InterruptError::Expired(vec!["a".into()])));
        let all = json!([b, c, entry("a", "cancelled"), entry("d", "cancelled")]);
        assert_eq!(resume(all.clone()), Ok(all));
        // Repeated requests are compared with the client's entries alone.
        let stored = json!([b, c, own("a"), own("d")]).to_string();
        assert_eq!(serde_json::from_str::<Value>(&of_client(&stored)).expect("JSON"), json!([b, c]));
        let mut none = Answered::read(None).expect("none");
        none.expire(&Conversation::default(), now);
        assert_eq!(none.resume(None), None);
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

//! Open interrupts of a thread, as its row lists them.
//!
//! An AG-UI agent that needs a decision ends its run with RUN_FINISHED and `outcome.interrupts`; a later run answers
//! them in `input.resume` of its RUN_STARTED (<https://docs.ag-ui.com/concepts/interrupts>). An interrupt is open from
//! the RUN_FINISHED that requests it to the RUN_FINISHED of a run that answers it.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    Author, NewEvents, RunId, RunStatus, Seq, Terminal, Timestamp, json,
    limits::{
        MAX_ANSWERS, MAX_ID_BYTES, MAX_INTERRUPT_SUMMARY_BYTES, MAX_LISTED_INTERRUPT_BYTES,
        MAX_LISTED_INTERRUPTS_BYTES, MAX_OPEN_INTERRUPTS,
    },
};

/// Interrupt of a thread that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenInterrupt {
    /// Id of the interrupt, by which an answer names it.
    pub id: String,
    /// Seq of the RUN_FINISHED that requested the interrupt.
    pub seq: Seq,
    /// Time of that event.
    pub at: Timestamp,
    /// Run that requested the interrupt.
    pub run: RunId,
    /// Author of that run; `None` for a run from before authors were kept.
    pub author: Option<Author>,
    /// Active run that answers the interrupt; `None` if no run does.
    pub answered_in: Option<RunId>,
    /// The interrupt as AG-UI has it: a JSON object. A larger one than [`MAX_LISTED_INTERRUPT_BYTES`], or
    /// one beyond [`MAX_LISTED_INTERRUPTS_BYTES`] of its run's, is cut to `id`,
    /// `reason`, `message` and `toolCallId`, and has `"truncated": true`.
    pub body: String,
}

impl OpenInterrupt {
    /// True if the `expiresAt` of the interrupt has passed. An interrupt whose body was cut has no `expiresAt`.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        json::string_member(&self.body, "expiresAt").is_some_and(|until| has_passed(&until, now))
    }
}

/// True if an `expiresAt` has passed. Text that is not an RFC 3339 time never passes.
pub fn has_passed(expires_at: &str, now: Timestamp) -> bool {
    Timestamp::from_rfc3339(expires_at).is_some_and(|until| until <= now)
}

/// Id that stands in answers for an interrupt that no row lists.
pub const UNLISTED: &str = "";

/// Interrupt as the row of its thread stores it, under its id.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    place: u64,
    body: String,
    run: String,
    author: Option<String>,
    seq: Seq,
    at: i64,
    answered_in: Option<String>,
}

/// Interrupts of one RUN_FINISHED as they are stored: an object of `{place, body}` by id. `None` if `event` requests
/// none that an answer can name.
pub fn requested(event: &str) -> Option<String> {
    let outcome = json::member(event, "outcome")?;
    if !json::is_string(json::member(outcome, "type")?, "interrupt") {
        return None;
    }
    let list: Vec<&RawValue> = serde_json::from_str(json::member(outcome, "interrupts")?).ok()?;
    let (mut requested, mut bytes) = (Map::new(), 0);
    for (place, interrupt) in list.into_iter().take(MAX_OPEN_INTERRUPTS).enumerate() {
        let text = interrupt.get();
        let Some(id) = json::string_member(text, "id").filter(|id| is_listed(id)) else { continue };
        let is_whole = text.len() <= MAX_LISTED_INTERRUPT_BYTES && bytes + text.len() <= MAX_LISTED_INTERRUPTS_BYTES;
        // Clients read the interrupts of many threads at once: one that some cannot read would cost them all.
        let body = if is_whole && is_readable(text) { text.to_owned() } else { summary(&id, text) };
        bytes += body.len();
        if bytes > 4 * MAX_LISTED_INTERRUPTS_BYTES {
            break;
        }
        // The first of several with one id counts, as in the fold of a conversation.
        requested.entry(id).or_insert_with(|| json!({ "place": place, "body": body }));
    }
    (!requested.is_empty()).then(|| Value::Object(requested).to_string())
}

/// Ids of the interrupts that a RUN_STARTED answers, as a JSON array: each once, and at most [`MAX_ANSWERS`]. An id that
/// no row lists is [`UNLISTED`], and so is an answer that readers of JSON may take for another one or for none. `None` if
/// the event answers none.
pub fn answered(event: &str) -> Option<String> {
    let inputs: Vec<&str> = json::members(event, "input").collect();
    let input = inputs.last().filter(|input| **input != "null")?;
    let resumes: Vec<&str> = json::members(input, "resume").collect();
    let is_plain = input.starts_with('{') && inputs.len() == 1 && resumes.len() <= 1;
    let resume = resumes.last().filter(|resume| !matches!(**resume, "null" | "[]"));
    if is_plain && resume.is_none() {
        return None;
    }
    let entries: Vec<&RawValue> = resume.and_then(|resume| serde_json::from_str(resume).ok()).unwrap_or_default();
    let (mut ids, mut seen) = (Vec::new(), HashSet::new());
    for entry in entries.into_iter().map(RawValue::get) {
        if !matches!(json::string_member(entry, "status").as_deref(), Some("resolved" | "cancelled")) {
            continue;
        }
        let id = json::string_member(entry, "interruptId").filter(|id| is_listed(id)).unwrap_or_default();
        if ids.len() < MAX_ANSWERS && seen.insert(id.clone()) {
            ids.push(id);
        }
    }
    if (!is_plain || ids.is_empty()) && seen.insert(UNLISTED.to_owned()) {
        ids.push(UNLISTED.to_owned());
    }
    Some(json!(ids).to_string())
}

/// Open interrupts of a stored row, oldest first; `None` if the text is no such row.
pub fn stored(row: &str) -> Option<Vec<OpenInterrupt>> {
    let row: std::collections::BTreeMap<String, Stored> = serde_json::from_str(row).ok()?;
    let mut open = Vec::with_capacity(row.len());
    for (id, entry) in row {
        let interrupt = OpenInterrupt {
            id,
            seq: entry.seq,
            at: Timestamp(entry.at),
            run: RunId::new(&entry.run).ok()?,
            author: entry.author.as_deref().map(Author::stored),
            answered_in: entry.answered_in.map(|run| RunId::new(&run)).transpose().ok()?,
            body: entry.body,
        };
        open.push((entry.seq, entry.place, interrupt));
    }
    open.sort_by_key(|(seq, place, _)| (*seq, *place));
    Some(open.into_iter().map(|(_, _, interrupt)| interrupt).collect())
}

/// Commit of a run that may change its thread's open interrupts.
#[derive(Debug, Clone, Copy)]
pub struct RunCommit<'c> {
    /// Id of the run.
    pub run: &'c RunId,
    /// Author of the run.
    pub author: Option<&'c Author>,
    /// Interrupts that the run answers, see [`answered`].
    pub answers: Option<&'c str>,
    /// Status of the run after the commit.
    pub status: RunStatus,
    /// Interrupts that the run requests at its end, see [`requested`].
    pub requested: Option<&'c str>,
    /// Seq of the commit's last event.
    pub seq: Seq,
    /// Time of the commit.
    pub at: Timestamp,
}

impl<'c> RunCommit<'c> {
    /// Commit of a stored run, from its events: the last one of them has this seq. `end` is the run's last seq, and its status from
    /// then on.
    pub fn of(
        run: &'c RunId,
        author: Option<&'c Author>,
        end: (Seq, RunStatus),
        events: &'c NewEvents,
        (seq, at): (Seq, Timestamp),
    ) -> Self {
        let (answers, requested) = (events.answers(), events.terminal().and_then(Terminal::interrupts));
        let status = if seq == end.0 { end.1 } else { RunStatus::Running };
        Self { run, author, answers, status, requested, seq, at }
    }
}

/// Row of open interrupts after a commit; `None` if none is open. Answers count once their run has ended without an
/// error; those of a failed run are forgotten. An interrupt that is open already stays as it is, but for the one of a
/// producer whose id an agent requests: it becomes the agent's. The bounds of an agent's interrupts count those of agents
/// alone, so that no producer keeps them from the list. Postgres and SQLite have the same as statements.
pub fn after(open: Option<&str>, commit: &RunCommit<'_>) -> Option<String> {
    let read = |row: Option<&str>| row.and_then(|row| serde_json::from_str::<Map<String, Value>>(row).ok());
    let mut kept = read(open).unwrap_or_default();
    let answers: HashSet<String> = commit.answers.and_then(|ids| serde_json::from_str(ids).ok()).unwrap_or_default();
    let is_of_run = |entry: &Value| entry["answeredIn"].as_str() == Some(commit.run.as_str());
    if commit.status.is_active() {
        for id in &answers {
            if let Some(entry) = kept.get_mut(id) {
                entry["answeredIn"] = commit.run.as_str().into();
            }
        }
    } else if commit.status.is_failure() {
        for entry in kept.values_mut().filter(|entry| is_of_run(entry)) {
            entry.as_object_mut().map(|members| members.remove("answeredIn"));
        }
    } else {
        kept.retain(|id, entry| !is_of_run(entry) && !answers.contains(id));
    }
    let requested = read(commit.requested).unwrap_or_default();
    let by_agent = commit.author.is_some_and(|author| author.agent_id().is_some());
    let is_of_agent =
        |entry: &Value| entry["author"].as_str().is_some_and(|author| Author::stored(author).agent_id().is_some());
    kept.retain(|id, entry| !by_agent || is_of_agent(entry) || !requested.contains_key(id));
    let counted = || kept.values().filter(|entry| !by_agent || is_of_agent(entry));
    let bytes: usize = counted().filter_map(|entry| entry["body"].as_str()).map(str::len).sum();
    if counted().count() < MAX_OPEN_INTERRUPTS && bytes < MAX_LISTED_INTERRUPTS_BYTES {
        for (id, mut entry) in requested {
            entry["run"] = commit.run.as_str().into();
            entry["author"] = commit.author.map(Author::as_str).into();
            entry["seq"] = commit.seq.into();
            entry["at"] = commit.at.0.into();
            kept.entry(id).or_insert(entry);
        }
    }
    (!kept.is_empty()).then(|| Value::Object(kept).to_string())
}

/// True if an interrupt of this id can be listed. Postgres' JSON holds no NUL.
fn is_listed(id: &str) -> bool {
    id != UNLISTED && id.len() <= MAX_ID_BYTES && !id.contains('\0')
}

/// True if strict readers of JSON accept the text: no lone surrogate, no number beyond a double, not too deep.
fn is_readable(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

/// The parts of an interrupt that tell a person what it is about, each cut.
fn summary(id: &str, interrupt: &str) -> String {
    let mut summary = json!({ "id": id, "truncated": true });
    for name in ["reason", "message", "toolCallId"] {
        if let Some(text) = json::string_member(interrupt, name) {
            summary[name] = text[..text.floor_char_boundary(MAX_INTERRUPT_SUMMARY_BYTES)].into();
        }
    }
    summary.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(interrupts: &Value) -> String {
        json!({ "type": "RUN_FINISHED", "outcome": { "type": "interrupt", "interrupts": interrupts } }).to_string()
    }

    #[test]
    fn interrupts_are_listed_by_the_id_that_an_answer_names() {
        let event = finished(&json!([
            { "id": "a", "reason": "tool_call" }, { "id": "a", "reason": "again" }, { "reason": "no id" }, "none",
            { "id": "n\u{0}" }, { "id": "x".repeat(MAX_ID_BYTES + 1) }, { "id": "b" },
        ]));
        let requested: Value = serde_json::from_str(&requested(&event).expect("interrupts")).expect("JSON");
        assert_eq!(
            requested,
            json!({
                "a": { "place": 0, "body": r#"{"id":"a","reason":"tool_call"}"# },
                "b": { "place": 6, "body": r#"{"id":"b"}"# },
            })
        );
    }

    #[test]
    fn an_interrupt_that_strict_readers_refuse_is_cut() {
        for odd in [r#""message":"\ud83d""#, r#""metadata":1e400"#] {
            let interrupt = format!(r#"{{"id":"i","reason":"r",{odd}}}"#);
            let event =
                format!(r#"{{"type":"RUN_FINISHED","outcome":{{"type":"interrupt","interrupts":[{interrupt}]}}}}"#);
            let row: Value = serde_json::from_str(&requested(&event).expect("one")).expect("JSON");
            let body: Value = serde_json::from_str(row["i"]["body"].as_str().expect("a body")).expect("JSON");
            assert_eq!(body, json!({ "id": "i", "reason": "r", "truncated": true }), "{odd}");
        }
    }

    #[test]
    fn other_ends_of_a_run_request_nothing() {
        for event in [
            r#"{"type":"RUN_FINISHED"}"#,
            r#"{"type":"RUN_FINISHED","outcome":null}"#,
            r#"{"type":"RUN_FINISHED","outcome":{"type":"success"}}"#,
            r#"{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[]}}"#,
            r#"{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":7}}"#,
        ] {
            assert_eq!(requested(event), None, "{event}");
        }
    }

    #[test]
    fn large_interrupts_are_cut_to_what_a_person_needs() {
        let large = json!({ "id": "a", "message": "é".repeat(MAX_LISTED_INTERRUPT_BYTES), "metadata": {} });
        let row: Value = serde_json::from_str(&requested(&finished(&json!([large]))).expect("one")).expect("JSON");
        let body: Value = serde_json::from_str(row["a"]["body"].as_str().expect("a body")).expect("JSON");
        let message = "é".repeat(MAX_INTERRUPT_SUMMARY_BYTES / 2);
        assert_eq!(body, json!({ "id": "a", "message": message, "truncated": true }));
        let many: Vec<_> = (0..MAX_OPEN_INTERRUPTS + 9)
            .map(|at| json!({ "id": at.to_string(), "message": "m".repeat(MAX_LISTED_INTERRUPT_BYTES / 2) }))
            .collect();
        let row = requested(&finished(&json!(many))).expect("many");
        assert_eq!(serde_json::from_str::<Map<String, Value>>(&row).expect("JSON").len(), MAX_OPEN_INTERRUPTS);
        let odd = json!({ "id": "\u{1}".repeat(MAX_ID_BYTES), "message": "\u{1}".repeat(999), "reason": "x" });
        let odd = (0..MAX_OPEN_INTERRUPTS).map(|at| {
            let mut odd = odd.clone();
            odd["id"] = format!("{at}{}", &odd["id"].as_str().expect("an id")[4..]).into();
            odd
        });
        let odd = requested(&finished(&json!(odd.collect::<Vec<_>>()))).expect("many");
        assert!(odd.len() < 8 * MAX_LISTED_INTERRUPTS_BYTES, "{}", odd.len());
        assert!(row.len() < 4 * MAX_LISTED_INTERRUPTS_BYTES, "{}", row.len());
    }

    #[test]
    fn answers_name_the_interrupts_that_they_settle() {
        let started = |resume: Value| json!({ "type": "RUN_STARTED", "input": { "resume": resume } }).to_string();
        let answer = |id: &str, status: &str| json!({ "interruptId": id, "status": status });
        let event = started(json!([answer("a", "resolved"), answer("b", "cancelled"), answer("c", "perhaps"), 7]));
        assert_eq!(answered(&event).as_deref(), Some(r#"["a","b"]"#));
        let odd = started(json!([answer("a", "resolved"), answer("n\u{0}", "resolved"), answer("a", "cancelled")]));
        assert_eq!(answered(&odd).as_deref(), Some(r#"["a",""]"#), "each once, and what is not listed is told apart");
        let many: Vec<_> = (0..MAX_ANSWERS + 9).map(|at| answer(&at.to_string(), "resolved")).collect();
        let many: Vec<String> = serde_json::from_str(&answered(&started(json!(many))).expect("ids")).expect("JSON");
        assert_eq!(many.len(), MAX_ANSWERS);
        for other in [started(json!([])), started(json!(null)), r#"{"type":"RUN_STARTED"}"#.to_owned()] {
            assert_eq!(answered(&other), None, "{other}");
        }
        for odd in [
            r#"{"input":{"resume":[]},"input":{}}"#,
            r#"{"input":{"resume":[{"interruptId":"a"}]}}"#,
            r#"{"input":{"resume":7}}"#,
            r#"{"input":{"resume":[7],"resume":[]}}"#,
            r#"{"input":[]}"#,
        ] {
            assert_eq!(answered(odd).as_deref(), Some(r#"[""]"#), "{odd}");
        }
    }

    #[test]
    fn stored_interrupts_are_read_in_the_order_of_their_requests() {
        let entry = |place: u64, seq: u64| json!({ "place": place, "seq": seq, "at": 7, "run": "r", "body": "{}" });
        let row = json!({ "a": entry(1, 9), "b": entry(0, 9), "c": entry(3, 4) }).to_string();
        let ids: Vec<_> = stored(&row).expect("a row").into_iter().map(|interrupt| interrupt.id).collect();
        assert_eq!(ids, ["c", "b", "a"]);
        assert_eq!(stored("[]"), None);
    }
}

//! One line per event, for reading by people.
//!
//! ```text
//!     12  10:11:15.123  …0c0ffee1234  TEXT_MESSAGE_CONTENT     "Hello, wor"
//! ```

use super::output::{short_id, shown};
use threadline_client::{Hold, LastRun, QueueState, RunStatus, Thread};
use threadline_core::{Seq, json};

/// Most characters of an event's content on its line.
const WIDTH: usize = 160;

/// Renders an event on one line.
pub(super) fn event(seq: Seq, run: &str, at: &str, payload: &str) -> String {
    let kind = json::string_member(payload, "type").unwrap_or_default();
    let line = format!(
        "{seq:>7}  {}  {:<12}  {:<24} {}",
        time_of_day(at),
        short_id(run),
        shown(&kind, 48),
        what(&kind, payload)
    );
    line.trim_end().to_owned()
}

/// Time of day of a timestamp: `10:11:15.123` for `2026-11-21T10:11:15.123Z`.
fn time_of_day(at: &str) -> String {
    shown(at.split_once('T').map_or(at, |(_, time)| time.trim_end_matches('Z')), 24)
}

/// Date of a timestamp: `2026-11-21` for `2026-11-21T10:11:15.123Z`.
pub(super) fn date(at: &str) -> &str {
    at.split_once('T').map_or(at, |(date, _)| date)
}

/// Content of an event, without its type.
fn what(kind: &str, payload: &str) -> String {
    let text = |name: &str| json::string_member(payload, name);
    let quoted = |name: &str| text(name).map(|text| format!("\"{}\"", shown(&text, WIDTH)));
    let plain = |name: &str| text(name).map(|text| shown(&text, WIDTH));
    let raw = |name: &str| json::member(payload, name).map(|value| shown(value, WIDTH));
    let id = |name: &str| text(name).map(|id| short_id(&id));
    let join = |parts: &[Option<String>]| parts.iter().flatten().cloned().collect::<Vec<_>>().join("  ");
    match kind {
        "RUN_STARTED" => join(&[id("runId")]),
        "RUN_FINISHED" => join(&[raw("result")]),
        "RUN_ERROR" => join(&[plain("code"), plain("message")]),
        "STEP_STARTED" | "STEP_FINISHED" => join(&[plain("stepName")]),
        "TOOL_CALL_START" => join(&[plain("toolCallName"), id("toolCallId")]),
        "TOOL_CALL_RESULT" => join(&[id("toolCallId"), quoted("content")]),
        "STATE_SNAPSHOT" => join(&[raw("snapshot")]),
        "STATE_DELTA" | "ACTIVITY_DELTA" => join(&[raw("delta").or_else(|| raw("patch"))]),
        "MESSAGES_SNAPSHOT" => join(&[raw("messages")]),
        "CUSTOM" => join(&[plain("name"), raw("value")]),
        // All other types: events with a piece of text show that text, others show their ids and names.
        _ => match quoted("delta").or_else(|| quoted("content")) {
            Some(text) => text,
            None => {
                let known = join(&[plain("role"), id("messageId"), id("toolCallId"), plain("name")]);
                if known.is_empty() { shown(payload, WIDTH) } else { known }
            }
        },
    }
}

/// Queued turns of a thread, in a few words; `None` if there are none and nothing holds the queue.
fn queued(queued: u64, held: Option<Hold>) -> Option<String> {
    match (queued, held) {
        (0, None) => None,
        (0, Some(_)) => Some("held".to_owned()),
        (queued, None) => Some(format!("{queued} queued")),
        (queued, Some(_)) => Some(format!("{queued} held")),
    }
}

/// State of a queue as a sentence, with the reason why it rests.
pub(super) fn queue(QueueState { queued, held, .. }: QueueState) -> String {
    let turns = match queued {
        0 => "no turn is queued".to_owned(),
        1 => "1 turn is queued".to_owned(),
        turns => format!("{turns} turns are queued"),
    };
    let reason = match held {
        None => return turns,
        Some(Hold::Stop) => "a run was stopped",
        Some(Hold::Error) => "a run failed",
        Some(Hold::Hand) => "somebody holds it",
        Some(Hold::Unknown) => "for a reason that this program does not know",
    };
    format!("{turns}; the queue rests until it is released ({reason})")
}

/// State of a thread in a few words: that of its active run, or of a last run that failed, and its queue.
pub(super) fn state(thread: &Thread) -> String {
    let failed = |run: &&LastRun| matches!(run.status, RunStatus::Error | RunStatus::Abandoned);
    let run = match &thread.active_run {
        Some(run) if run.stop_requested => Some("stopping"),
        Some(run) => Some(run.status.as_str()),
        None if thread.open_interrupts > 0 => Some("waiting"),
        None => thread.last_run.as_ref().filter(failed).map(|run| run.status.as_str()),
    };
    let archived = thread.archived.then(|| "archived".to_owned());
    let parts = [run.map(str::to_owned), queued(thread.queued, thread.held), archived];
    let words: Vec<_> = parts.into_iter().flatten().collect();
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(payload: &str) -> String {
        let line = event(12, "run-1", "2026-11-21T10:11:15.123Z", payload);
        line.strip_prefix("     12  10:11:15.123  run-1         ").expect("the columns").to_owned()
    }

    #[test]
    fn each_kind_of_event_shows_what_matters() {
        let table = [
            (
                r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Hello,\nwor"}"#,
                r#"TEXT_MESSAGE_CONTENT     "Hello,\nwor""#,
            ),
            (
                r#"{"type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant"}"#,
                "TEXT_MESSAGE_START       assistant  m1",
            ),
            (
                r#"{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"search"}"#,
                "TOOL_CALL_START          search  c1",
            ),
            (r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"q\":"}"#, r#"TOOL_CALL_ARGS           "{"q":""#),
            (
                r#"{"type":"RUN_ERROR","code":"lease-expired","message":"gone"}"#,
                "RUN_ERROR                lease-expired  gone",
            ),
            (r#"{"type":"RUN_FINISHED","threadId":"t"}"#, "RUN_FINISHED"),
            (r#"{"type":"STATE_DELTA","delta":[{"op":"add"}]}"#, r#"STATE_DELTA              [{"op":"add"}]"#),
            (r#"{"type":"CUSTOM","name":"n","value":[1]}"#, "CUSTOM                   n  [1]"),
            (r#"{"type":"MINE","x":1}"#, r#"MINE                     {"type":"MINE","x":1}"#),
        ];
        for (payload, shown) in table {
            assert_eq!(line(payload), shown);
        }
    }

    #[test]
    fn a_queue_is_told_with_the_reason_why_it_rests() {
        let told = |queued, held| queue(QueueState { version: 1, queued, held });
        assert_eq!(told(0, None), "no turn is queued");
        assert_eq!(told(1, None), "1 turn is queued");
        let held = "2 turns are queued; the queue rests until it is released (a run was stopped)";
        assert_eq!(told(2, Some(Hold::Stop)), held);
        assert_eq!([queued(0, None), queued(0, Some(Hold::Hand))], [None, Some("held".to_owned())]);
        assert_eq!(
            [queued(3, None), queued(3, Some(Hold::Error))],
            ["3 queued", "3 held"].map(|text| Some(text.to_owned()))
        );
    }

    #[test]
    fn hostile_text_is_shown_and_not_obeyed() {
        let line = line(r#"{"type":"TEXT_MESSAGE_CONTENT","delta":"\u001b]0;owned\u0007"}"#);
        assert!(line.ends_with(r#""\u{1b}]0;owned\u{7}""#), "{line}");
    }
}

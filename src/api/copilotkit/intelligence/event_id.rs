//! Event ids of CopilotKit's clients, which are also their cursors.
//!
//! A runner gives its events an id, `metadata.cpki_event_id`. Events from other APIs, or from Threadline itself, get an
//! id when they are sent, made of the epoch and the seq. Such an id is the same each time, and names the event's
//! position.

use memchr::memmem;
use serde_json::value::RawValue;
use threadline_core::{Epoch, Seq, json};

/// Prefix of ids that Threadline makes.
const PREFIX: &str = "tl-";
/// Prefix of ids that clients do not accept as cursors.
const NO_CURSOR: &str = "cpki_ingested";

/// Id that the event itself contains, unless clients would not accept it as a cursor.
pub fn own(event: &str) -> Option<String> {
    let id = json::string_member(json::member(event, "metadata")?, "cpki_event_id")?;
    (!id.is_empty() && !id.starts_with(NO_CURSOR)).then_some(id)
}

/// Id of the event at this position: its own, or one that is made of the position.
pub fn of(event: &str, epoch: Epoch, seq: Seq) -> String {
    own(event).unwrap_or_else(|| made(epoch, seq))
}

fn made(epoch: Epoch, seq: Seq) -> String {
    format!("{PREFIX}{epoch}-{seq}")
}

/// Position that an id made by [`of`] names; `None` if the id is not of this log.
pub fn place(id: &str, epoch: Epoch) -> Option<Seq> {
    let (named, seq) = id.strip_prefix(PREFIX)?.rsplit_once('-')?;
    (Epoch::named(named) == epoch).then(|| seq.parse().ok()).flatten()
}

/// True if the event contains this id. A search of the bytes excludes most events before any parsing.
pub fn is(event: &str, id: &str) -> bool {
    memmem::find(event.as_bytes(), id.as_bytes()).is_some() && own(event).as_deref() == Some(id)
}

/// Formats an event for sending: as it is stored, with an id added to its metadata if it has none.
pub fn identified(event: &str, epoch: Epoch, seq: Seq) -> String {
    let event = event.trim();
    if own(event).is_some() {
        return event.to_owned();
    }
    let id = format!("\"cpki_event_id\":\"{}\"", made(epoch, seq));
    let metadata = json::member(event, "metadata").filter(|metadata| metadata.starts_with('{'));
    let Some(metadata) = metadata else {
        // If a member occurs twice, the last one counts.
        return format!("{},\"metadata\":{{{id}}}}}", &event[..event.len().saturating_sub(1)]);
    };
    // The id is inserted before the brace that closes the metadata.
    let at = metadata.as_ptr() as usize - event.as_ptr() as usize + metadata.len() - 1;
    let comma = if metadata[1..metadata.len() - 1].trim().is_empty() { "" } else { "," };
    format!("{}{comma}{id}{}", &event[..at], &event[at..])
}

/// Splits a push to a runner's topic into events; `None` if the payload is invalid.
pub fn events_of<'a>(event: &str, payload: &'a RawValue) -> Option<Vec<&'a RawValue>> {
    #[derive(serde::Deserialize)]
    struct Batch<'a> {
        #[serde(borrow)]
        events: Vec<&'a RawValue>,
    }
    if event == "event" {
        return Some(vec![payload]);
    }
    Some(serde_json::from_str::<Batch<'a>>(payload.get()).ok()?.events)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_event_has_one_id_and_it_names_its_place() {
        let epoch = Epoch::generate();
        let cases = [
            r#"{"type":"A"}"#,
            r#"{"type":"A","metadata":{}}"#,
            r#"{"metadata":{ } ,"type":"A"}"#,
            r#"{"type":"A","metadata":{"k":"}"}}"#,
            r#"{"type":"A","metadata":null}"#,
            r#"{"type":"A","metadata":{"cpki_event_id":7}}"#,
            r#"{"type":"A","metadata":{"cpki_event_id":""},"x":[1]}"#,
            r#"{"type":"A","metadata":{"cpki_event_id":"cpki_ingested_1"}}"#,
            r#"{"type":"A","metadata":{"cpki_event_id":"a"},"metadata":{"b":1}}"#,
        ];
        for (seq, event) in (1..).zip(cases) {
            let id = of(event, epoch, seq);
            assert_eq!(place(&id, epoch), Some(seq), "{event}");
            let sent = identified(event, epoch, seq);
            let read: Value = serde_json::from_str(&sent).expect("JSON");
            assert_eq!(read["metadata"]["cpki_event_id"], id.as_str(), "{sent}");
            assert_eq!(read["type"], "A");
        }
    }

    #[test]
    fn an_id_that_an_event_brings_is_left_alone() {
        let event = r#"{"type":"A","metadata":{"cpki_event_id":"tl-1","x":1}}"#;
        assert_eq!(identified(event, Epoch::generate(), 4), event);
        assert!(is(event, "tl-1") && !is(event, "x") && !is(event, "tl-"));
        assert_eq!(place("tl-1", Epoch::generate()), None);
        assert_eq!(place("tl-0123456789abcdef-5", Epoch::generate()), None, "of another log");
    }
}

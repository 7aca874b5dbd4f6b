//! Begin of a run as AG-UI clients need it: they refuse a run that does not begin with RUN_STARTED, and producers of other APIs
//! may omit the event. It is sent to these clients and not stored.

use serde_json::json;

use crate::{RunId, ThreadId, json::string_member};

/// RUN_STARTED of a run whose first event is `first`; `None` if the run begins as clients expect.
pub fn missing_start(thread: &ThreadId, run: &RunId, first: &[u8]) -> Option<String> {
    let kind = std::str::from_utf8(first).ok().and_then(|first| string_member(first, "type"));
    if kind.is_some_and(|kind| kind == "RUN_STARTED" || kind == "RUN_ERROR") {
        return None;
    }
    Some(json!({ "type": "RUN_STARTED", "threadId": thread.as_str(), "runId": run.as_str() }).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_begins_with_one_start() {
        let (thread, run) = (ThreadId::new("t").expect("id"), RunId::new("r").expect("id"));
        let missing = |first: &str| missing_start(&thread, &run, first.as_bytes());
        assert_eq!(missing(r#"{"type":"RUN_STARTED"}"#), None);
        assert_eq!(missing(r#"{"type":"RUN_ERROR","message":"no"}"#), None);
        let start = missing(r#"{"type":"TEXT_MESSAGE_CHUNK","delta":"x"}"#).expect("is missing");
        assert_eq!(start, r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#.to_owned(), "{start}");
    }
}

use super::*;

const STARTED: &str = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;

/// The first event that is refused, with its flaw.
fn refused(events: &[&str]) -> Option<(usize, String, String)> {
    let mut validation = Validation::default();
    events.iter().enumerate().find_map(|(index, event)| {
        let flaw = validation.check(event).err()?;
        Some((index, flaw.path, flaw.expected))
    })
}

/// Path and expectation for an event behind RUN_STARTED.
fn flaw(event: &str) -> (String, String) {
    let (index, path, expected) = refused(&[STARTED, event]).expect("refused");
    assert_eq!(index, 1);
    (path, expected)
}

#[test]
fn flaws_of_shape_name_the_member_and_what_belongs_there() {
    let cases = [
        (r#"{"type":"TEXT_MESSAGE_CONTNET"}"#, "/type", "a type of AG-UI 1.0; events of your own are CUSTOM"),
        (r#"{"type":"TEXT_MESSAGE_START"}"#, "/messageId", "a string, which is missing"),
        (r#"{"type":"TEXT_MESSAGE_START","messageID":"m"}"#, "/messageId", "a string, which is missing"),
        (r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":5}"#, "/delta", "a string"),
        (
            r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"tool"}"#,
            "/role",
            "one of developer, system, assistant, user",
        ),
        (
            r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[]}}"#,
            "/outcome/interrupts",
            "an array with an item",
        ),
        (
            r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"user","content":[{"type":"text"}]}]}"#,
            "/messages/0/content/0/text",
            "a string, which is missing",
        ),
        (
            r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"user","content":7}]}"#,
            "/messages/0/content",
            "a string or an array",
        ),
        (r#"{"type":"STATE_DELTA","delta":[{"op":"add","path":"a","value":1}]}"#, "/delta/0/path", "a JSON Pointer"),
        (
            r#"{"type":"STATE_DELTA","delta":[{"op":"put"}]}"#,
            "/delta/0/op",
            "one of add, remove, replace, move, copy, test",
        ),
        (r#"{"type":"CUSTOM","name":"n","value":1,"timestamp":1.5}"#, "/timestamp", "a whole number"),
        (r#"{"type":"CUSTOM","name":"n","value":1,"timestamp":9007199254740992}"#, "/timestamp", "a whole number"),
        (r#"{"type":"CUSTOM","name":"n","value":1,"metadata":null}"#, "/metadata", "an object"),
        (
            r#"{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":[{"type":"text","text":"","metadata":null}]}"#,
            "/content/0/metadata",
            "a value other than null",
        ),
    ];
    for (event, path, expected) in cases {
        assert_eq!(flaw(event), (path.to_owned(), expected.to_owned()), "{event}");
    }
    for fine in [
        r#"{"type":"CUSTOM","name":"n","value":null,"own":{"x":1},"timestamp":1.0e3}"#,
        r#"{"type":"STATE_SNAPSHOT","snapshot":null}"#,
        r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":null,"result":null,"rawEvent":null}"#,
        r#"{"type":"STATE_DELTA","delta":[{"op":"remove","path":"/a~1b/~0","value":1}]}"#,
        r#"{"type":"TEXT_MESSAGE_CHUNK","delta":"\ud800"}"#,
    ] {
        assert_eq!(refused(&[STARTED, fine]), None, "{fine}");
    }
}

#[test]
fn flaws_of_order_name_what_is_not_open_or_still_is() {
    let custom = r#"{"type":"CUSTOM","name":"n","value":1}"#;
    let start = r#"{"type":"TEXT_MESSAGE_START","messageId":"m"}"#;
    let content = r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}"#;
    let end = r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#;
    let finished = r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#;
    let at = |events: &[&str]| refused(events).map(|(index, path, _)| (index, path));
    let is = |index: usize, path: &str| Some((index, path.to_owned()));
    assert_eq!(at(&[custom]), is(0, "/type"));
    assert_eq!(at(&[STARTED, STARTED]), is(1, "/type"));
    assert_eq!(at(&[STARTED, content]), is(1, "/messageId"));
    assert_eq!(at(&[STARTED, start, content, end, content]), is(4, "/messageId"));
    assert_eq!(at(&[STARTED, start, start]), is(2, "/messageId"));
    assert_eq!(at(&[STARTED, start, finished]), is(2, "/type"));
    assert_eq!(at(&[STARTED, start, content, end, finished, custom]), is(5, "/type"));
    assert_eq!(at(&[STARTED, start, content, end, start, end, finished]), None, "an id may be used again");
    let tagged = r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x","subagentRunId":"s"}"#;
    assert_eq!(at(&[STARTED, start, tagged]), is(2, "/subagentRunId"));
    let (_, _, expected) = refused(&[STARTED, start, finished]).expect("refused");
    assert_eq!(expected, "TEXT_MESSAGE_END for \"m\" before the end of the run");
}

/// A refused event leaves nothing: what takes its place is judged as if it had not been sent.
#[test]
fn a_refused_event_changes_nothing() {
    let mut validation = Validation::default();
    assert_eq!(validation.check(STARTED), Ok(()));
    let started = |parent: &str| {
        format!(r#"{{"type":"SUBAGENT_STARTED","subagentRunId":"a","name":"n","parentSubagentRunId":"{parent}"}}"#)
    };
    assert!(validation.check(&started("none")).is_err());
    assert_eq!(validation.check(r#"{"type":"SUBAGENT_STARTED","subagentRunId":"b","name":"n"}"#), Ok(()));
    assert_eq!(validation.check(&started("b")), Ok(()));
}

/// Memory is bounded, whatever a producer opens and names.
#[test]
fn memory_is_bounded() {
    let mut validation = Validation::default();
    validation.check(STARTED).expect("begins");
    let mut open = 0;
    for number in 0..4_000 {
        let start = format!(r#"{{"type":"TEXT_MESSAGE_START","messageId":"{number}"}}"#);
        open += usize::from(validation.check(&start).is_ok());
        let named =
            format!(r#"{{"type":"TOOL_CALL_RESULT","messageId":"{:0>2000}","toolCallId":"c","content":""}}"#, number);
        validation.check(&named).expect("a result");
    }
    assert_eq!(open, crate::limits::MAX_OPEN_PARTS);
    assert!(validation.weight() < crate::limits::MAX_OWNED_BYTES + 2 * crate::limits::MAX_OPEN_BYTES);
}

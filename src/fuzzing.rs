//! Fuzz targets for all code that reads data from the network: `make fuzz`. Each target takes any bytes, must not
//! panic, and checks properties that hold for every input.
//!
//! Releases do not contain this module. The tests run the corpus in `fuzz/corpus` through the same functions.

use std::fmt;

use serde_json::value::RawValue;
use threadline_core::{
    AgentId, Batch, Epoch, NewEvents, RunId, ThreadId, Timestamp, UserId, json,
    limits::{MAX_ID_BYTES, MAX_JSON_DEPTH, ROW_BYTES},
    projection::{
        closing::{Ending, OpenParts},
        conversation::{Conversation, Draft},
        langgraph,
    },
};
use threadline_engine::cluster::bus;
use threadline_http::auth;

use crate::{agents::fuzzing as agents, api::fuzzing as api, titles, transfer};

/// Fuzz target: one parser, or several with the same input.
#[derive(Clone, Copy)]
pub struct Target {
    /// Name of the target, and of its directory in `fuzz/corpus`.
    pub name: &'static str,
    /// Function that takes any bytes.
    pub run: fn(&[u8]),
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// All targets, by name.
pub const TARGETS: &[Target] = &[
    Target { name: "agent-stream", run: agents::agent_stream },
    Target { name: "agui-input", run: agents::agui_input },
    Target { name: "channels", run: api::channels },
    Target { name: "client", run: client_side },
    Target { name: "closing", run: closing },
    Target { name: "conversation", run: conversation },
    Target { name: "documents", run: documents },
    Target { name: "events", run: events },
    Target { name: "export", run: transfer::fuzzing::export },
    Target { name: "frames", run: api::frames },
    Target { name: "hints", run: bus::redis::fuzz },
    Target { name: "ids", run: ids },
    Target { name: "json", run: json_scan },
    Target { name: "names", run: titles::fuzzing::names },
    Target { name: "openai-stream", run: agents::openai_stream },
    Target { name: "patch", run: patch },
    Target { name: "requests", run: api::requests },
    Target { name: "tokens", run: auth::fuzzing::tokens },
];

/// Looks up a target by its name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|target| target.name == name).copied()
}

/// Scanning JSON without parsing finds the same members as parsing.
fn json_scan(data: &[u8]) {
    let depth = json::depth(data, MAX_JSON_DEPTH);
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(raw) = serde_json::from_str::<&RawValue>(text) else { return };
    let text = raw.get();
    if depth > MAX_JSON_DEPTH {
        return;
    }
    for name in ["type", "id", "a"] {
        let look = json::look(text, name, MAX_JSON_DEPTH);
        let member = json::member(text, name);
        assert_eq!((look.text, look.depth, look.member), (text, depth, member));
        let Ok(value) = serde_json::from_str::<serde_json::Value>(text) else { continue };
        let found = member.map(|member| serde_json::from_str::<serde_json::Value>(member).ok());
        assert_eq!(found, value.as_object().and_then(|object| object.get(name)).map(|value| Some(value.clone())));
    }
    let again: String = serde_json::from_str(&json::quoted(text)).unwrap_or_default();
    assert_eq!(again, text);
}

/// An accepted batch consists of lines of JSON objects with a type, in either format, and wherever it is cut.
fn events(data: &[u8]) {
    for read in [NewEvents::from_array(data), NewEvents::from_ndjson(data)] {
        let Ok(batch) = read else { continue };
        let body = batch.body();
        let lines: Vec<_> = body.split(|byte| *byte == b'\n').collect();
        assert_eq!((lines.len(), body.contains(&b'\r')), (batch.count(), false));
        for line in &lines {
            assert!(json::depth(line, MAX_JSON_DEPTH) <= MAX_JSON_DEPTH);
            let text = std::str::from_utf8(line).unwrap_or_default();
            assert!(serde_json::from_str::<&RawValue>(text).is_ok_and(|raw| raw.get().starts_with('{')));
            assert!(json::member(text, "type").is_some_and(|kind| kind.starts_with('"')));
        }
        let again = NewEvents::from_ndjson(body).map(|again| (again.body().clone(), again.terminal().cloned()));
        assert_eq!(again, Ok((body.clone(), batch.terminal().cloned())));
        let joined: Vec<_> = batch.pieces(ROW_BYTES).into_iter().map(|(_, piece)| piece).collect();
        assert_eq!(joined.join(&b'\n'), *body);
        for n in [1, batch.count() / 2, batch.count()] {
            let rest = batch.skip(n).map(|rest| rest.body().to_vec());
            assert_eq!(rest.is_none(), n >= batch.count());
            let parts: Vec<_> = [Some(batch.head(n).to_vec()), rest].into_iter().flatten().collect();
            assert!(n == 0 || parts.join(&b'\n') == *body);
        }
    }
}

/// Parses identifiers and times.
fn ids(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let quoted = json::quoted(text);
    let known = ThreadId::new(text).is_ok();
    let sound = !matches!(text, "" | "." | "..") && text.len() <= MAX_ID_BYTES;
    assert_eq!(known, sound && !text.chars().any(char::is_control));
    let others = [RunId::new(text).is_ok(), AgentId::new(text).is_ok(), UserId::new(text).is_ok()];
    assert_eq!(others, [known; 3]);
    assert_eq!(serde_json::from_str::<ThreadId>(&quoted).is_ok(), known);
    let epoch = Epoch::named(text);
    assert_eq!(Epoch::named(&epoch.to_string()), epoch);
    if let Ok(time) = serde_json::from_str::<Timestamp>(&quoted) {
        let written = serde_json::to_string(&time).unwrap_or_default();
        assert_eq!(serde_json::from_str::<Timestamp>(&written).ok(), Some(time));
    }
}

/// All documents that a conversation renders.
fn shown(conversation: &Conversation) -> [Vec<u8>; 3] {
    [conversation.messages_json(), conversation.state_json(), conversation.interrupts_json()]
}

/// Any events: the rendered documents are JSON, and a snapshot at any point plus the events after it equals the whole.
fn conversation(data: &[u8]) {
    let lines: Vec<_> = data.split(|byte| *byte == b'\n').collect();
    let (mut whole, mut cut) = (Conversation::default(), None);
    for (at, line) in lines.iter().enumerate() {
        if at == lines.len() / 2 {
            let stored = whole.encode();
            cut = Conversation::decode(&stored);
            assert!(cut.is_some(), "a snapshot is read again");
        }
        whole.observe(line);
        if let Some(cut) = &mut cut {
            cut.observe(line);
        }
    }
    let shown_whole = shown(&whole);
    for json in &shown_whole {
        let text = std::str::from_utf8(json).unwrap_or_default();
        assert!(serde_json::from_str::<&RawValue>(text).is_ok(), "{text}");
    }
    assert_eq!(cut.as_ref().map(shown), Some(shown_whole));
    assert!(whole.pending_tool_calls().iter().all(|call| call.len() <= data.len()));
    let values = langgraph::values_of(&whole);
    assert!(serde_json::from_str::<&RawValue>(&values).is_ok(), "{values}");
    derived(&lines);
}

/// Events that derive for LangGraph's clients are JSON on one line, and their numbers grow, also across runs.
fn derived(lines: &[&[u8]]) {
    let is_stored =
        |line: &&[u8]| serde_json::from_slice::<&RawValue>(line).is_ok_and(|event| event.get().starts_with('{'));
    let mut stream = langgraph::ThreadStream::new(langgraph::Channels::all(), 0);
    let mut newest = 0;
    for (seq, line) in (1..).zip(lines.iter().copied().filter(|line| is_stored(line))) {
        let (run, mut events) = (if seq > lines.len() as u64 / 2 { "r" } else { "s" }, Vec::new());
        stream.observe(run, seq, line, &mut events);
        for event in events {
            let number = match event {
                langgraph::Derived::Point(point) => point.number,
                langgraph::Derived::Event { number, data, .. } => {
                    assert!(serde_json::from_str::<&RawValue>(&data).is_ok() && !data.contains('\n'), "{data}");
                    number
                }
            };
            assert!(number > newest && langgraph::seq_of_number(number) == seq, "{number} follows {newest}");
            newest = number;
        }
    }
}

/// A list of messages, as in a document: an accepted list comes back unchanged.
fn documents(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if json::depth(data, MAX_JSON_DEPTH) > MAX_JSON_DEPTH || serde_json::from_str::<&RawValue>(text).is_err() {
        return;
    }
    let Ok(drafts) = Draft::list(text) else { return };
    let texts: Vec<_> = drafts.iter().map(Draft::text).collect();
    let mut stored = Conversation::default();
    if stored.repeated_id(&drafts, 0).is_err() {
        return;
    }
    let event = format!(r#"[{{"type":"RUN_STARTED","input":{{"messages":[{}]}}}}]"#, texts.join(","));
    let event = NewEvents::from_array(event.as_bytes()).map(|events| events.body().clone());
    assert!(event.is_ok(), "what is taken can be stored");
    stored.observe(&event.unwrap_or_default());
    assert_eq!((stored.messages().len(), stored.in_common(&drafts)), (drafts.len(), drafts.len()));
    let shown = String::from_utf8(stored.messages_json()).unwrap_or_default();
    let again = Draft::list(&shown).unwrap_or_default();
    assert_eq!((again.len(), stored.in_common(&again)), (drafts.len(), drafts.len()), "{shown}");
    let kept = Conversation::decode(&stored.encode());
    assert_eq!(kept.map(|kept| kept.messages_json()), Some(shown.into_bytes()));
}

/// Any events: their closing events are a valid batch, and leave nothing open.
fn closing(data: &[u8]) {
    let ending = Ending::Error { code: "x".to_owned(), message: "x".to_owned() };
    for ending in [Ending::Finished, ending] {
        let mut open = OpenParts::default();
        data.split(|byte| *byte == b'\n').for_each(|line| open.observe(line));
        let closers = open.closers("t", "r", &ending);
        assert!(closers.terminal().is_some());
        assert!(NewEvents::from_ndjson(closers.body()).is_ok());
        closers.body().split(|byte| *byte == b'\n').for_each(|line| open.observe(line));
        assert_eq!(open.closers("t", "r", &ending).count(), 1, "only the end itself");
    }
}

/// A state in the first line and a patch after it: the patch is applied completely or not at all.
fn patch(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let (state, patch) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let event = |kind: &str, member: &str, value: &[u8]| {
        [format!("{{\"type\":\"{kind}\",\"{member}\":").as_bytes(), value, b"}"].concat()
    };
    let mut conversation = Conversation::default();
    conversation.observe(&event("STATE_SNAPSHOT", "snapshot", state));
    let before = conversation.state_json();
    conversation.observe(&event("STATE_DELTA", "delta", patch));
    let after = conversation.state_json();
    assert!(conversation.skipped_deltas() == 0 || before == after);
    assert!(serde_json::from_slice::<serde_json::Value>(&after).is_ok());
    // The result from a snapshot must be the same.
    let again = Conversation::decode(&conversation.encode());
    assert_eq!(again.map(|again| again.state_json()), Some(after));
}

/// Frames and documents of a server, as the Rust client reads them.
fn client_side(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok((_, frame)) = threadline_client::ServerFrame::<Box<RawValue>>::parse(text) {
        assert!(!format!("{frame:?}").is_empty());
    }
    let _ = threadline_client::event_array(data);
    let _ = serde_json::from_str::<threadline_client::EventPage>(text);
    let _ = serde_json::from_str::<threadline_client::FeedPage>(text);
    let _ = serde_json::from_str::<threadline_client::ThreadPage>(text);
    let _ = serde_json::from_str::<threadline_client::RunPage>(text);
    let _ = serde_json::from_str::<threadline_client::Messages>(text);
    let _ = serde_json::from_str::<threadline_client::StartedRun>(text);
    let batch = Batch::new(1, 1, RunId::generate(), Timestamp(0), data.to_vec().into());
    assert!(batch.events().count() >= 1);
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    /// Inputs that were once interesting or once failed stay covered.
    #[test]
    fn the_corpus_is_read() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
        let names = fs::read_dir(&corpus).expect("fuzz/corpus");
        let names: BTreeSet<_> =
            names.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
        assert_eq!(names, TARGETS.iter().map(|target| target.name.to_owned()).collect());
        for target in TARGETS {
            let files: Vec<_> = fs::read_dir(corpus.join(target.name)).expect("a directory").collect();
            assert!(files.len() >= 2, "{target:?} has no seeds");
            for file in files {
                let path = file.expect("a file").path();
                // The output of a failed test names the file.
                println!("{}", path.display());
                (target.run)(&fs::read(&path).expect("a file"));
            }
            (target.run)(b"");
        }
    }
}

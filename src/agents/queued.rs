//! Input of a turn that waits: what its client sent, as it is kept until the run begins. The input of the agent is built from it and
//! from the log as that is then.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use threadline_core::hex;

use super::{AgentError, ClientInput, approval, input, source::Trust};

/// Client that asked for a turn.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Asker {
    Key,
    Client,
}

/// Kept input, as it is read.
#[derive(Deserialize)]
struct Kept {
    trust: Asker,
    /// SHA-256 of what the request said, by which its repetition is known.
    digest: String,
    input: ClientInput,
}

#[derive(Serialize)]
struct Keeping<'k> {
    trust: Asker,
    digest: &'k str,
    input: Members<'k>,
}

/// Members of an input, each as it came.
struct Members<'m>(Vec<(&'m str, &'m RawValue)>);

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (*name, *value)))
    }
}

/// Input of a turn that waits.
#[derive(Debug)]
pub struct Waiting {
    pub trust: Trust,
    pub input: ClientInput,
}

/// Digest of what a request says. Ids that the server gives to messages are no part of it.
fn digest(input: &ClientInput) -> String {
    let mut hasher = Sha256::new();
    let values = [&input.tools, &input.context, &input.forwarded_props];
    for value in input.messages.iter().chain(values.into_iter().flatten()) {
        hasher.update((value.get().len() as u64).to_be_bytes());
        hasher.update(value.get());
    }
    hex(&hasher.finalize())
}

/// True if an input answers interrupts.
pub fn answers(input: &ClientInput) -> bool {
    input.resume.is_some() || approval::answers(input)
}

/// Text that keeps an input. Messages without an id get one. The client's state is not kept: it is old when the run begins.
fn text(input: &ClientInput, trust: Asker, digest: &str) -> Result<String, AgentError> {
    if answers(input) {
        return Err(AgentError::InvalidInput("answers to interrupts (`resume`) cannot be queued".to_owned()));
    }
    let messages = input::with_ids(&input.messages).map_err(AgentError::InvalidInput)?;
    let raw = |text: String| RawValue::from_string(text).map_err(|error| AgentError::InvalidInput(error.to_string()));
    let messages = raw(format!("[{}]", messages.join(",")))?;
    let parent = input.parent_run_id.as_deref().map(|parent| raw(threadline_core::json::quoted(parent))).transpose()?;
    let known = [
        ("parentRunId", parent.as_deref()),
        ("messages", Some(&*messages)),
        ("tools", input.tools.as_deref()),
        ("context", input.context.as_deref()),
        ("forwardedProps", input.forwarded_props.as_deref()),
    ];
    let rest = input.rest.iter().map(|(name, value)| (name.as_str(), &**value));
    let members = known.into_iter().filter_map(|(name, value)| Some((name, value?))).chain(rest).collect();
    let kept = Keeping { trust, digest, input: Members(members) };
    serde_json::to_string(&kept).map_err(|error| AgentError::InvalidInput(error.to_string()))
}

/// Text that keeps the input of a request.
pub fn keep(input: &ClientInput, trust: Trust) -> Result<String, AgentError> {
    text(input, asker(trust), &digest(input))
}

/// Text that keeps another input of the same turn. A repetition of the request that has queued it is still known.
pub fn keep_edited(kept: &str, input: &ClientInput, trust: Trust) -> Result<Option<String>, AgentError> {
    let Some(Kept { digest, .. }) = read(kept) else { return Ok(None) };
    text(input, asker(trust), &digest).map(Some)
}

fn asker(trust: Trust) -> Asker {
    match trust {
        Trust::Key => Asker::Key,
        Trust::Client => Asker::Client,
    }
}

fn read(kept: &str) -> Option<Kept> {
    serde_json::from_str(kept).ok()
}

/// The input that was kept; `None` if it cannot be read.
pub fn waiting(kept: &str) -> Option<Waiting> {
    let Kept { trust, input, .. } = read(kept)?;
    let trust = match trust {
        Asker::Key => Trust::Key,
        Asker::Client => Trust::Client,
    };
    Some(Waiting { trust, input })
}

/// True if both texts keep what the same request said.
pub fn is_same(kept: &str, other: &str) -> bool {
    read(kept).zip(read(other)).is_some_and(|(kept, other)| kept.digest == other.digest)
}

/// Messages of a turn that waits.
pub fn messages(kept: &str) -> Vec<Box<RawValue>> {
    read(kept).map(|kept| kept.input.messages).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn client(input: Value) -> ClientInput {
        serde_json::from_str(&input.to_string()).expect("an input")
    }

    #[test]
    fn what_waits_is_read_as_it_was_kept() {
        let input = json!({
            "messages": [{"role":"user","content":"hi"}, {"id":"m","role":"user","content":"é"}], "state": {"a":1},
            "tools": [{"name":"t"}], "forwardedProps": {"x":[1]}, "parentRunId": "p", "future": {"y":2}
        });
        let kept = keep(&client(input), Trust::Client).expect("keeps");
        let Waiting { trust, input } = waiting(&kept).expect("reads");
        assert_eq!((trust, input.parent_run_id.as_deref(), input.messages.len()), (Trust::Client, Some("p"), 2));
        assert!(input.state.is_none(), "the client's state is old when the run begins");
        assert_eq!(input.tools.as_deref().map(RawValue::get), Some(r#"[{"name":"t"}]"#));
        assert_eq!(
            input.rest.iter().map(|(name, value)| (name.as_str(), value.get())).collect::<Vec<_>>(),
            [("future", r#"{"y":2}"#)]
        );
        let ids: Vec<_> = messages(&kept)
            .iter()
            .map(|message| serde_json::from_str::<Value>(message.get()).expect("JSON")["id"].clone())
            .collect();
        assert!(ids[0].as_str().is_some_and(|id| !id.is_empty()), "{ids:?}");
        assert_eq!(ids[1], "m");
        assert_eq!(
            ids,
            waiting(&kept)
                .expect("reads")
                .input
                .messages
                .iter()
                .map(|message| { serde_json::from_str::<Value>(message.get()).expect("JSON")["id"].clone() })
                .collect::<Vec<_>>(),
            "the ids stay"
        );
    }

    #[test]
    fn a_repetition_is_known_by_what_it_says() {
        let one = |content: &str| {
            keep(&client(json!({"messages":[{"role":"user","content":content}]})), Trust::Key).expect("keeps")
        };
        assert!(is_same(&one("hi"), &one("hi")) && !is_same(&one("hi"), &one("ho")) && !is_same("{}", "{}"));
        let edited =
            keep_edited(&one("hi"), &client(json!({"messages":[{"role":"user","content":"other"}]})), Trust::Key);
        let edited = edited.expect("keeps").expect("was kept");
        assert!(is_same(&edited, &one("hi")) && messages(&edited)[0].get().contains("other"));
    }

    #[test]
    fn answers_do_not_wait() {
        let forms = [
            json!({"messages":[],"resume":[]}),
            json!({"messages":[],"forwardedProps":{"command":{"resume":"yes"}}}),
            json!({"messages":[],"forwardedProps":{"Command":{"Resume":"yes"}}}),
            json!({"messages":[],"Resume":[{"interruptId":"i"}]}),
        ];
        for answers in forms {
            assert!(
                matches!(keep(&client(answers.clone()), Trust::Key), Err(AgentError::InvalidInput(_))),
                "{answers}"
            );
            let kept = keep(&client(json!({"messages":[]})), Trust::Key).expect("keeps");
            assert!(keep_edited(&kept, &client(answers.clone()), Trust::Key).is_err(), "{answers}");
        }
    }
}

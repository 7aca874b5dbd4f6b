//! Ids of responses and conversations. They encode the ids of the run and the thread, so nothing is stored to find these again.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use threadline_core::{RunId, ThreadId};
use threadline_http::problem::{Problem, ProblemType};

const RESPONSE: &str = "resp_";
const CONVERSATION: &str = "conv_";
/// Separator of the thread and the run. No id contains it.
const BETWEEN: char = '\0';

/// Run that a response stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseId {
    pub thread: ThreadId,
    pub run: RunId,
}

impl ResponseId {
    /// Id of the response that stands for a run.
    pub fn new(thread: &ThreadId, run: &RunId) -> Self {
        Self { thread: thread.clone(), run: run.clone() }
    }

    /// Reads an id. One that no response can have is not found.
    pub fn read(text: &str) -> Result<Self, Problem> {
        Self::parse(text).ok_or_else(|| no_response(text))
    }

    fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text.strip_prefix(RESPONSE)?).ok()?;
        let (thread, run) = std::str::from_utf8(&bytes).ok()?.split_once(BETWEEN)?;
        Some(Self { thread: ThreadId::new(thread).ok()?, run: RunId::new(run).ok()? })
    }
}

impl std::fmt::Display for ResponseId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let named = format!("{}{BETWEEN}{}", self.thread.as_str(), self.run.as_str());
        write!(out, "{RESPONSE}{}", URL_SAFE_NO_PAD.encode(named))
    }
}

/// Refusal of a response that does not exist for this caller.
pub fn no_response(id: &str) -> Problem {
    Problem::new(ProblemType::RunNotFound, format!("no response has the id {:?}", shown(id)))
}

/// Result of a request for a response that was found: if its thread was deleted since, it is not found.
pub fn or_gone<T>(id: &ResponseId, result: Result<T, Problem>) -> Result<T, Problem> {
    result.map_err(|problem| match problem.kind {
        ProblemType::ThreadNotFound | ProblemType::RunNotFound => no_response(&id.to_string()),
        _ => problem,
    })
}

/// Id of the conversation that stands for a thread.
pub fn conversation_id(thread: &ThreadId) -> String {
    format!("{CONVERSATION}{}", thread.as_str())
}

/// Thread of a conversation. An id that no conversation can have is not found.
pub fn conversation(id: &str) -> Result<ThreadId, Problem> {
    let thread = id.strip_prefix(CONVERSATION).and_then(|id| ThreadId::new(id).ok());
    thread.ok_or_else(|| no_conversation(id))
}

/// Refusal of a conversation that does not exist for this caller.
pub fn no_conversation(id: &str) -> Problem {
    Problem::new(ProblemType::ThreadNotFound, format!("no conversation has the id {:?}", shown(id)))
}

/// Beginning of an id of a client.
fn shown(id: &str) -> &str {
    &id[..id.floor_char_boundary(128)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_back_and_no_other_text_is_one() {
        for (thread, run) in [("t", "r"), ("a/b ü", "c:d"), (&"x".repeat(256), &"y".repeat(256))] {
            let id = ResponseId::new(&ThreadId::new(thread).expect("an id"), &RunId::new(run).expect("an id"));
            let text = id.to_string();
            assert!(text[5..].bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{text}");
            assert_eq!(ResponseId::read(&text).ok(), Some(id));
        }
        for bad in ["", "resp_", "resp_%", "resp_dA", "dAByAA", "resp_dABy ", "resp_AHI", "resp_dAA", "conv_t"] {
            assert_eq!(
                ResponseId::read(bad).err().map(|problem| problem.kind),
                Some(ProblemType::RunNotFound),
                "{bad}"
            );
        }
        let thread = ThreadId::new("t/ü").expect("an id");
        assert_eq!(conversation(&conversation_id(&thread)).ok(), Some(thread));
        assert!(conversation("t").is_err() && conversation("conv_").is_err());
    }
}

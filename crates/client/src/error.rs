//! Errors of the client, and whether a retry can help.

use std::{borrow::Cow, fmt, time::Duration};

use serde_json::{Map, Value};

use super::PlacedTurn;
use threadline_core::{EventError, Seq};

/// Reason for which a call did not do what it was to do.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The client cannot be set up, or a value cannot be sent: no request was sent.
    #[error("{0}")]
    Config(String),
    /// The server would refuse an event: no request was sent.
    #[error("cannot append: {0}")]
    Event(#[from] EventError),
    /// No connection was made: no request reached the server.
    #[error(
        "cannot connect to a Threadline server at {url} ({cause}). Start one with `threadline serve` or `threadline dev`, \
         or set another URL with --url or THREADLINE_URL"
    )]
    Unreachable {
        /// Address of the server, as configured.
        url: String,
        /// Cause, as the network reported it.
        cause: String,
    },
    /// The connection broke, or the answer did not arrive before the timeout. The request may have had its effect.
    #[error("lost the connection to {url} ({cause}): check that the server is up, and try again")]
    Transport {
        /// Address of the server, as configured.
        url: String,
        /// Cause, as the network reported it.
        cause: String,
    },
    /// The server refused the request, and says why.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// The run has not begun: its turn waits in the queue of the thread.
    #[error("the run {} has not begun: its turn is number {} in the queue of the thread", .0.run_id, .0.place)]
    Queued(PlacedTurn),
    /// The server closed the socket.
    #[error("the server closed the connection: {}", closed(*.code, .reason))]
    Closed {
        /// Close code of the WebSocket (RFC 6455, section 7.4, and Threadline's own from 4000 on).
        code: u16,
        /// Reason in the server's words, possibly empty.
        reason: String,
        /// Time that the server asks to wait before the next connection; `None` if it names none.
        retry_after: Option<Duration>,
    },
    /// Events arrived that do not follow the cursor. None of them was delivered; reconnecting from the cursor helps.
    #[error("events are out of order: {0}")]
    OutOfStep(String),
    /// The server has lost events of a run that its producer does not keep any more.
    #[error(
        "the server has lost the events of the run {run} from number {from} on, and this producer keeps its events only \
         from {kept} on: start another run"
    )]
    EventsLost {
        /// Id of the run.
        run: String,
        /// Number of the first lost event.
        from: u64,
        /// Number of the first event that the producer keeps.
        kept: u64,
    },
    /// An earlier batch of this producer has had no answer: no event of this one was taken.
    #[error("an earlier batch is not acknowledged yet: flush the producer until it succeeds, then append this one")]
    Unanswered,
    /// The other side does not follow Threadline's protocol.
    #[error("{0}. Is this a Threadline server, and as new as this client?")]
    Protocol(String),
}

/// Text for a closed connection.
fn closed(code: u16, reason: &str) -> String {
    let name = match code {
        1002 => "the client violated the WebSocket protocol",
        1007 => "the client sent text that is not UTF-8",
        4000 => "draining",
        4001 => "server error",
        4009 => "the client sent nothing before the timeout",
        4008 => "the client read too slowly",
        4500 => "the client sent an invalid frame",
        4501 => "the key or token has expired or was revoked: get a new one",
        4503 => "the server does not allow pages of this origin",
        4509 => "the client sent a frame that is too large",
        4510 => "the server does not support the requested version of the protocol",
        1000 | 1001 => "the server is shutting down",
        _ => "unknown reason",
    };
    if reason.is_empty() { format!("{name} (code {code})") } else { format!("{name} (code {code}: {reason})") }
}

impl ClientError {
    /// True if the same request, or a new connection from the cursor, can succeed later.
    ///
    /// Follows the "reconnect?" column of the close codes, and the `retryable` member of problems.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Config(_) | Self::Event(_) | Self::EventsLost { .. } | Self::Unanswered | Self::Protocol(_) => false,
            Self::Unreachable { .. } | Self::Transport { .. } | Self::OutOfStep(_) | Self::Queued(_) => true,
            Self::Problem(problem) => problem.retryable,
            Self::Closed { code, .. } => match code {
                4500..=4999 => false,
                // Registered codes that blame a frame of the client.
                1002 | 1003 | 1007..=1010 => false,
                _ => true,
            },
        }
    }

    /// Time that the server asks to wait before the next try; `None` if it names none.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Problem(problem) => problem.retry_after,
            Self::Closed { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The problem, if this error is a problem with that slug.
    pub fn problem(&self, slug: &str) -> Option<&Problem> {
        match self {
            Self::Problem(problem) if problem.slug == slug => Some(problem),
            _ => None,
        }
    }
}

/// Refusal of the server (problem details, RFC 9457).
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// Stable name of the problem's kind, such as `run-active`; `http-502` if another server than Threadline answered.
    pub slug: String,
    /// Short text for people.
    pub title: String,
    /// HTTP status of the answer.
    pub status: u16,
    /// Explanation of this occurrence; may be empty.
    pub detail: String,
    /// Advice in the server's words; `None` if there is none.
    pub help: Option<String>,
    /// True if the same request can succeed later.
    pub retryable: bool,
    /// Time to wait before the same request is sent again; `None` if the server names none.
    pub retry_after: Option<Duration>,
    /// Further members, such as the active run of a `run-active`.
    pub facts: Map<String, Value>,
}

impl Problem {
    /// Reads the members of a problem. Missing members are derived from the status.
    pub fn from_members(mut members: Map<String, Value>, fallback_status: u16) -> Self {
        let mut text = |name: &str| match members.remove(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let (kind, slug, title, detail) = (text("type"), text("slug"), text("title"), text("detail"));
        let help = text("help");
        let number = |value: Option<Value>| value.as_ref().and_then(Value::as_u64);
        let status = number(members.remove("status"));
        let status = status.and_then(|status| u16::try_from(status).ok()).unwrap_or(fallback_status);
        let slug = slug
            .or_else(|| kind.and_then(|kind| kind.rsplit('/').next().map(str::to_owned)))
            .filter(|slug| !slug.is_empty() && slug != "about:blank")
            .unwrap_or_else(|| format!("http-{status}"));
        let retryable = members.remove("retryable").as_ref().and_then(Value::as_bool);
        Self {
            title: title.unwrap_or_else(|| slug.clone()),
            detail: detail.unwrap_or_default(),
            retryable: retryable.unwrap_or(matches!(status, 429 | 502 | 503 | 504)),
            retry_after: number(members.remove("retryAfterMs")).map(Duration::from_millis),
            help,
            slug,
            status,
            facts: members,
        }
    }

    /// Reads the body of a refusal, which need not come from Threadline (a proxy may have answered).
    pub(super) fn from_body(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Self {
        let members = serde_json::from_slice(body).unwrap_or_else(|_| {
            let text: String = String::from_utf8_lossy(body).chars().take(200).collect();
            let mut members = Map::new();
            members.insert("title".into(), format!("HTTP status {status}").into());
            members.insert("detail".into(), text.trim().into());
            members
        });
        let mut problem = Self::from_members(members, status);
        problem.retry_after = problem.retry_after.or(retry_after);
        problem
    }

    /// Number among the further facts, such as `expected` of a `producer-seq-gap`; `None` if absent or no unsigned
    /// number.
    pub fn number(&self, fact: &str) -> Option<u64> {
        self.facts.get(fact).and_then(Value::as_u64)
    }

    /// Seq up to which a reader's events are those of the present log, and the epoch under which to read on from there,
    /// of a `log-replaced`; `None` if nothing is known to be common.
    pub fn common_cursor(&self) -> Option<(Seq, &str)> {
        Some((self.number("commonUpTo")?, self.facts.get("epoch")?.as_str()?))
    }

    /// Id of the run that stands against the request: the active one of a `run-active`, or the one that a queued turn has
    /// become (`turn-begun`); `None` if the problem names no run.
    pub fn run_id(&self) -> Option<&str> {
        self.facts.get("run")?.get("runId")?.as_str()
    }

    /// Advice for the person who uses the client.
    fn advice(&self) -> Option<Cow<'_, str>> {
        if let ("log-replaced", Some((seq, epoch))) = (self.slug.as_str(), self.common_cursor()) {
            let advice = format!(
                "The events after seq {seq} were lost and are void: read on after seq {seq} (--after {seq} --epoch {epoch})"
            );
            return Some(advice.into());
        }
        Some(Cow::Borrowed(match self.slug.as_str() {
            "unauthorized" | "http-401" => "Set THREADLINE_API_KEY to a key of this server",
            "thread-not-found" => {
                "Check the ID and the user (--user or THREADLINE_USER); `threadline threads --all` lists all threads"
            }
            "log-replaced" if self.facts.get("epoch").is_some_and(Value::is_null) => {
                "The server has lost the thread: keep what was shown, if it is needed, and create the thread again"
            }
            "log-replaced" => "The thread was deleted and created again: read it from the beginning, without a cursor",
            "cursor-ahead" => "The log is shorter than the cursor: read it from the beginning, without a cursor",
            "run-active" => "Follow the active run, stop it, or have the message wait (--busy enqueue)",
            "turn-not-found" | "queue-changed" => "List the queued turns as they are now: `threadline queue THREAD`",
            "run-fenced" => "The server, a newer run or another process ended it: start another run",
            _ => return self.help.as_deref().or(self.retryable.then_some("Try again in a moment")).map(Cow::Borrowed),
        }))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} {})", self.title.trim_end_matches('.'), self.status, self.slug)?;
        if !self.detail.is_empty() && self.detail != self.title {
            write!(f, ": {}", self.detail.trim_end_matches('.'))?;
        }
        if let Some(advice) = self.advice() {
            write!(f, ". {}", advice.trim_end_matches('.'))?;
        }
        Ok(())
    }
}

impl From<Problem> for ClientError {
    fn from(problem: Problem) -> Self {
        Self::Problem(Box::new(problem))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problem(value: Value, status: u16) -> Problem {
        Problem::from_members(value.as_object().cloned().unwrap_or_default(), status)
    }

    #[test]
    fn a_problem_keeps_its_facts() {
        let problem = problem(
            json!({"type": "https://threadline.dev/problems/producer-seq-gap", "title": "Gap", "status": 409,
                   "detail": "expected 3", "help": "Send 3.", "retryable": false, "retryAfterMs": 250, "expected": 3}),
            0,
        );
        assert_eq!((problem.slug.as_str(), problem.status, problem.retryable), ("producer-seq-gap", 409, false));
        assert_eq!(problem.retry_after, Some(Duration::from_millis(250)));
        assert_eq!(problem.number("expected"), Some(3));
        assert_eq!(problem.facts.len(), 1);
        assert_eq!(problem.to_string(), "Gap (409 producer-seq-gap): expected 3. Send 3");
    }

    #[test]
    fn a_refusal_that_is_no_problem_is_worked_out_from_the_status() {
        let proxy = Problem::from_body(502, Some(Duration::from_secs(2)), b"<html>bad gateway</html>");
        assert_eq!((proxy.slug.as_str(), proxy.retryable), ("http-502", true));
        assert_eq!(proxy.retry_after, Some(Duration::from_secs(2)));
        assert_eq!(
            proxy.to_string(),
            "HTTP status 502 (502 http-502): <html>bad gateway</html>. Try again in a moment"
        );
        assert!(!Problem::from_body(404, None, b"").retryable);
    }

    #[test]
    fn errors_say_what_to_do() {
        let unreachable = ClientError::Unreachable { url: "http://h:1".into(), cause: "refused".into() };
        assert!(unreachable.to_string().contains("threadline serve"));
        let unauthorized = ClientError::from(problem(json!({"slug": "unauthorized", "title": "No"}), 401));
        assert!(unauthorized.to_string().contains("THREADLINE_API_KEY"));
    }
}

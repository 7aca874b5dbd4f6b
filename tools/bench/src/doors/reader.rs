//! Client that follows a run through one API, and reads only the marks of the agent's events.

use std::{net::SocketAddr, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use memchr::memmem::Finder;
use reqwest::{Client, RequestBuilder, Response, StatusCode, header};
use serde_json::{Value, json};
use tokio::time;

use super::{
    Api,
    agent::{Agent, MARK, NAME},
};
use crate::{BenchError, socket::Socket};

/// Longest wait for the next bytes.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest mark: two numbers with their separators.
const LONGEST: usize = 48;

/// Connection of a client.
enum Stream {
    Socket(Socket),
    Sse(Response),
}

pub struct Reader {
    stream: Stream,
    marks: Finder<'static>,
    /// End of what was received: the beginning of a mark that is not yet complete.
    rest: Vec<u8>,
    /// Number of the next event. APIs repeat texts at the end of a message, so smaller numbers are skipped.
    next: u32,
    /// Ages of the events at their receipt.
    pub ages: Vec<Duration>,
}

impl Reader {
    /// Follows a run from its beginning.
    pub async fn open(
        server: SocketAddr,
        api: Api,
        thread: &str,
        run: &str,
        messages: &Value,
    ) -> Result<Self, BenchError> {
        let stream = match request(server, api, thread, run, messages) {
            None => {
                let mut socket = Socket::open(server).await?;
                socket.send(format!("{{\"subscribe\":{}}}", json!({ "threadId": thread, "after": 0 }))).await?;
                Stream::Socket(socket)
            }
            Some(request) => {
                let response = request.header(header::ACCEPT, "text/event-stream").send().await?.error_for_status()?;
                if response.status() != StatusCode::OK {
                    return Err(BenchError::Unexpected(format!("{api:?} answered with {}", response.status())));
                }
                Stream::Sse(response)
            }
        };
        Ok(Self { stream, marks: Finder::new(MARK), rest: Vec::new(), next: 0, ages: Vec::new() })
    }

    /// Forgets the ages so far.
    pub fn forget(&mut self) {
        self.ages.clear();
    }

    /// Reads until it has this many ages.
    pub async fn reads(&mut self, agent: &Agent, count: u32) -> Result<(), BenchError> {
        while self.ages.len() < count as usize {
            let late = |_| BenchError::Unexpected(format!("only {} of {count} events came", self.ages.len()));
            match &mut self.stream {
                Stream::Socket(socket) => {
                    let text = time::timeout(PATIENCE, socket.next()).await.map_err(late)??;
                    self.rest.extend_from_slice(text.as_bytes());
                }
                Stream::Sse(response) => match time::timeout(PATIENCE, response.chunk()).await.map_err(late)?? {
                    Some(chunk) => self.rest.extend_from_slice(&chunk),
                    None => return Err(BenchError::Unexpected("the stream ended early".to_owned())),
                },
            }
            self.take(agent.now())?;
        }
        Ok(())
    }

    /// Takes the marks out of what was received.
    fn take(&mut self, now: Duration) -> Result<(), BenchError> {
        let mut kept = self.rest.len().saturating_sub(MARK.len() - 1);
        for at in self.marks.find_iter(&self.rest) {
            let mark = &self.rest[at + MARK.len()..];
            let end = mark.iter().take(LONGEST).position(|byte| *byte == b'.');
            if end.is_none() && mark.len() < LONGEST {
                kept = at;
                break;
            }
            let end = end.unwrap_or(LONGEST);
            let text = String::from_utf8_lossy(&mark[..end]);
            let numbers =
                text.split_once('-').and_then(|(number, sent)| Some((number.parse::<u32>().ok()?, sent.parse().ok()?)));
            let Some((number, sent)) = numbers else {
                return Err(BenchError::Unexpected(format!("a mark is {text:?}")));
            };
            kept = kept.max(at + MARK.len() + end);
            if number > self.next {
                return Err(BenchError::Unexpected(format!("event {number} came before {}", self.next)));
            }
            if number == self.next {
                self.next += 1;
                self.ages.push(now.saturating_sub(Duration::from_nanos(sent)));
            }
        }
        self.rest.drain(..kept);
        Ok(())
    }
}

/// Request that follows the run; `None` for the socket.
fn request(server: SocketAddr, api: Api, thread: &str, run: &str, messages: &Value) -> Option<RequestBuilder> {
    let client = Client::new();
    let at = |path: String| format!("http://{server}/{path}");
    Some(match api {
        Api::Socket => return None,
        Api::Sse => client.get(at(format!("v1/threads/{thread}/events"))),
        Api::AgUi => {
            let input = json!({ "threadId": thread, "runId": run, "messages": messages });
            client.post(at(format!("agui/{NAME}"))).json(&input)
        }
        Api::AiSdk => client.get(at(format!("ai/{NAME}/{thread}/stream"))),
        Api::OpenAi => {
            let id = URL_SAFE_NO_PAD.encode(format!("{thread}\0{run}"));
            client.get(at(format!("openai/v1/responses/resp_{id}?stream=true")))
        }
        Api::LangGraph => {
            // The channels of a page that shows messages.
            let channels = json!({ "channels": ["values", "messages", "lifecycle", "input"] });
            client.post(at(format!("langgraph/threads/{thread}/stream/events"))).json(&channels)
        }
        Api::DurableStreams => client.get(at(format!("streams/v1/stream/threads/{thread}?offset=-1&live=sse"))),
    })
}

//! Readers over the crate's own client, which may go away and come back with their cursor.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt;
use serde_json::Value;
use threadline_client::{Client, ClientConfig, TailItem, TailOptions};
use tokio::{sync::watch, task::JoinHandle, time::timeout};

use crate::process::PATIENCE;

/// An event as a reader got it: seq, run, time and the payload's own bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub seq: u64,
    pub run: String,
    pub at: String,
    pub payload: String,
}

impl Seen {
    pub fn kind(&self) -> String {
        self.event()["type"].as_str().expect("a type").to_owned()
    }

    pub fn event(&self) -> Value {
        serde_json::from_str(&self.payload).expect("JSON")
    }
}

#[derive(Debug, Clone, Default)]
struct State {
    epoch: Option<String>,
    events: Vec<Seen>,
}

/// A reader of a thread from its first event on.
pub struct Reader {
    client: Client,
    thread: String,
    state: Arc<watch::Sender<State>>,
    task: JoinHandle<()>,
}

impl Reader {
    pub fn start(url: &str, thread: &str) -> Self {
        let client = client(url);
        let state = Arc::new(watch::Sender::new(State::default()));
        let task = tokio::spawn(follow(client.clone(), thread.to_owned(), state.clone()));
        Self { client, thread: thread.to_owned(), state, task }
    }

    /// Goes away; gives the cursor.
    pub async fn leave(&mut self) -> u64 {
        self.task.abort();
        let _ = (&mut self.task).await;
        self.count() as u64
    }

    /// Is back, with the cursor and nothing else.
    pub fn come_back(&mut self) {
        self.task = tokio::spawn(follow(self.client.clone(), self.thread.clone(), self.state.clone()));
    }

    pub fn count(&self) -> usize {
        self.state.borrow().events.len()
    }

    pub fn events(&self) -> Vec<Seen> {
        self.state.borrow().events.clone()
    }

    /// Waits until it has seen what is asked for.
    pub async fn sees(&self, what: &str, mut enough: impl FnMut(&[Seen]) -> bool) {
        let mut changes = self.state.subscribe();
        let waited = timeout(PATIENCE, changes.wait_for(|state| enough(&state.events))).await;
        assert!(waited.is_ok(), "never saw {what}; the last of {} events: {:?}", self.count(), self.events().last());
    }

    pub async fn counts(&self, least: usize) {
        self.sees(&format!("{least} events"), |events| events.len() >= least).await;
    }

    /// Waits for the end of a run.
    pub async fn sees_end_of(&self, run: &str) {
        let ends = |event: &Seen| event.run == run && matches!(event.kind().as_str(), "RUN_FINISHED" | "RUN_ERROR");
        self.sees(&format!("the end of {run}"), |events| events.last().is_some_and(ends)).await;
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn client(url: &str) -> Client {
    Client::new(ClientConfig::new(url)).expect("a client")
}

async fn follow(client: Client, thread: String, state: Arc<watch::Sender<State>>) {
    let known = state.borrow().clone();
    let options = TailOptions { after: known.events.len() as u64, epoch: known.epoch, ..TailOptions::default() };
    let mut tail = client.tail(&thread, options);
    while let Some(item) = tail.next().await {
        match item.expect("the reader continues") {
            TailItem::Hello { epoch, .. } => state.send_modify(|state| state.epoch = Some(epoch)),
            TailItem::Event { seq, run_id, at, event } => state.send_modify(|state| {
                let (run, at) = (run_id.to_string(), at.to_string());
                state.events.push(Seen { seq, run, at, payload: event.get().to_owned() });
            }),
            TailItem::Ended { reason } => panic!("the thread has ended: {reason:?}"),
            _ => {}
        }
    }
}

/// The whole log, page by page, as GET has it: the envelopes' own lines, and what is in them.
pub async fn log(url: &str, thread: &str) -> (String, Vec<Seen>) {
    let (mut text, mut epoch) = (String::new(), String::new());
    let http = reqwest::Client::new();
    loop {
        let after = text.lines().count();
        let request = http.get(format!("{url}/v1/threads/{thread}/events?after={after}{epoch}&limit=200"));
        let request = request.header("Accept", "application/x-ndjson").timeout(Duration::from_secs(20));
        let answer = request.send().await.expect("an answer").error_for_status().expect("good");
        epoch = format!("&epoch={}", answer.headers()["threadline-epoch"].to_str().expect("text"));
        let page = answer.text().await.expect("a text");
        if page.is_empty() {
            break;
        }
        text.push_str(&page);
    }
    (text.clone(), text.lines().map(envelope).collect())
}

fn envelope(line: &str) -> Seen {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Envelope<'a> {
        seq: u64,
        run_id: String,
        at: String,
        #[serde(borrow)]
        event: &'a serde_json::value::RawValue,
    }
    let Envelope { seq, run_id, at, event } = serde_json::from_str(line).expect("an envelope");
    Seen { seq, run: run_id, at, payload: event.get().to_owned() }
}

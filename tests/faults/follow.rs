//! Subscribers that come again with their cursor after each break, and must see exactly the log.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{SinkExt, StreamExt};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_tungstenite::tungstenite::Message;

use crate::{
    api::Api,
    judge::Event,
    record::Tally,
    seen::Sight,
    sockets::{Socket, connect, frame},
};

type All = Arc<Mutex<Sight>>;

pub struct Follower {
    kind: &'static str,
    all: All,
    task: JoinHandle<()>,
}

impl Follower {
    /// All threads over one socket.
    pub fn socket(api: Api, threads: Vec<String>, tally: Arc<Tally>) -> Self {
        let all: All = Arc::new(Mutex::new(Sight::new(threads, tally)));
        let task = tokio::spawn(follow_socket(api, all.clone()));
        Self { kind: "socket", all, task }
    }

    /// One thread over SSE.
    pub fn sse(api: Api, thread: String, tally: Arc<Tally>) -> Self {
        let all: All = Arc::new(Mutex::new(Sight::new([thread.clone()], tally.clone())));
        let task = tokio::spawn(follow_sse(api, thread, all.clone(), tally));
        Self { kind: "SSE", all, task }
    }

    /// Waits until it has caught up, and compares all that it saw, byte for byte.
    pub async fn compare(self, logs: &HashMap<String, Vec<Event>>) {
        let deadline = Instant::now() + Duration::from_secs(10);
        let behind = || self.all.lock().expect("not poisoned").behind(logs);
        while !behind().is_empty() && Instant::now() < deadline {
            sleep(Duration::from_millis(50)).await;
        }
        assert!(behind().is_empty(), "a {} subscriber did not catch up: {:?}", self.kind, behind());
        self.task.abort();
        self.all.lock().expect("not poisoned").compare(self.kind, logs);
    }
}

async fn follow_socket(api: Api, all: All) {
    loop {
        let mut socket = connect(&api).await;
        all.lock().expect("not poisoned").begin();
        loop {
            if subscribe(&mut socket, &all).await.is_none() {
                break;
            }
            match timeout(Duration::from_millis(300), frame(&mut socket)).await {
                Ok(Some(text)) => all.lock().expect("not poisoned").frame(&text),
                Ok(None) => break,
                // Time to look again for threads that were not there.
                Err(_) => {}
            }
        }
    }
}

async fn subscribe(socket: &mut Socket, all: &All) -> Option<()> {
    let frames = all.lock().expect("not poisoned").ask();
    for frame in frames {
        socket.send(Message::text(frame)).await.ok()?;
    }
    Some(())
}

async fn follow_sse(api: Api, thread: String, all: All, tally: Arc<Tally>) {
    loop {
        let query = all.lock().expect("not poisoned").query(&thread);
        if let Ok(response) = api.open(&format!("/v1/threads/{thread}/events?{query}"), "text/event-stream").await {
            match response.status().as_u16() {
                200 => read_sse(response, &thread, &all).await,
                404 | 503 => {}
                other => tally.violation(format!("SSE of {thread} with {query}: {other}")),
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
}

async fn read_sse(response: reqwest::Response, thread: &str, all: &All) {
    let mut body = response.bytes_stream();
    let mut buffer = Vec::new();
    while let Some(Ok(chunk)) = body.next().await {
        buffer.extend_from_slice(&chunk);
        all.lock().expect("not poisoned").messages(thread, &mut buffer);
    }
}

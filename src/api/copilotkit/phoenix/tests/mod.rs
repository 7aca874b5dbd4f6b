//! Tests of the transport with a plane whose topics push what the test sends.

mod polls;
mod sessions;
mod sockets;

use std::{
    any::Any,
    collections::HashMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use futures_util::stream;
use serde_json::{Value, json, value::RawValue};
use threadline_core::{Clock, Principal, ProjectId, Timestamp, UserId};
use threadline_engine::{Ports, Service};
use threadline_http::{
    auth::Auth,
    egress::{EgressClient, EgressPolicy},
    ws::protocol::HandOver,
};
use threadline_store::memory::MemoryStore;
use tokio::sync::{mpsc, oneshot};

use super::channel::{ChannelHandler, ChannelReply, Joined, Outgoing, Push, SocketKind};
use crate::{agents::Agents, api::ApiState};

/// View of a plane, through which the test observes and controls it.
#[derive(Clone, Default)]
struct Intercept(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// Payloads of the pushes that were processed, of all topics.
    taken: Vec<String>,
    /// Number of pushes in each call.
    together: Vec<usize>,
    /// Sender of each joined topic's pushes. Closed once the channel has dropped its stream.
    outgoing: HashMap<String, mpsc::UnboundedSender<Outgoing>>,
    /// Number of replies that are not written yet.
    unwritten: usize,
    closed: Option<HandOver>,
}

impl Intercept {
    fn look<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.0.lock().expect("no panic"))
    }

    fn taken(&self) -> Vec<String> {
        self.look(|seen| std::mem::take(&mut seen.taken))
    }

    fn closed(&self) -> Option<HandOver> {
        self.look(|seen| seen.closed)
    }

    fn outgoing(&self, topic: &str) -> mpsc::UnboundedSender<Outgoing> {
        self.look(|seen| seen.outgoing[topic].clone())
    }

    fn push(&self, topic: &str, number: u64) {
        let push = Push { event: "number", payload: format!("{{\"n\":{number}}}") };
        assert!(self.outgoing(topic).send(Outgoing::Push(vec![push])).is_ok(), "the channel is there");
    }

    fn plane(&self) -> TestPlane {
        TestPlane(self.clone())
    }
}

struct TestPlane(Intercept);

struct TestInbox(Intercept);

/// Value held by a reply until the reply is written.
struct Unwritten(Intercept);

impl Drop for Unwritten {
    fn drop(&mut self) {
        self.0.look(|seen| seen.unwritten -= 1);
    }
}

#[async_trait]
impl SocketKind for TestPlane {
    async fn join(&mut self, topic: &str, params: &RawValue) -> Result<Joined, Value> {
        if !topic.starts_with("t:") {
            return Err(json!({ "reason": "unmatched topic" }));
        }
        let (outgoing, pushed) = mpsc::unbounded_channel();
        self.0.look(|seen| seen.outgoing.insert(topic.to_owned(), outgoing));
        let pushes = stream::unfold(pushed, async |mut pushed| Some((pushed.recv().await?, pushed)));
        let response = json!({ "params": params });
        Ok(Joined { response, pushes: Box::pin(pushes), inbox: Box::new(TestInbox(self.0.clone())) })
    }

    async fn closed(&mut self, hand_over: HandOver) {
        self.0.look(|seen| seen.closed = Some(hand_over));
    }
}

#[async_trait]
impl ChannelHandler for TestInbox {
    async fn push_all(&mut self, pushes: &[(&str, &RawValue)]) -> Vec<ChannelReply> {
        self.0.look(|seen| seen.together.push(pushes.len()));
        let mut replies = Vec::new();
        for (event, payload) in pushes {
            replies.push(self.push(event, payload).await);
        }
        replies
    }

    async fn push(&mut self, event: &str, payload: &RawValue) -> ChannelReply {
        // Simulates processing that takes time.
        tokio::task::yield_now().await;
        self.0.look(|seen| seen.taken.push(payload.get().to_owned()));
        match event {
            "held" => {
                self.0.look(|seen| seen.unwritten += 1);
                let until_written: Box<dyn Any + Send> = Box::new(Unwritten(self.0.clone()));
                ChannelReply { result: Ok(json!({})), until_written: Some(until_written) }
            }
            "say" => Ok(json!({})).into(),
            _ => Err(json!({ "reason": "unknown_event" })).into(),
        }
    }
}

fn principal(user: &str) -> Principal {
    let project = ProjectId::new("default").expect("an id");
    Principal::user(project, UserId::new(user).expect("an id"))
}

fn state() -> ApiState {
    let clock = Clock::manual(Timestamp(1_000_000));
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let service = Service::start(Ports::alone(store.clone(), clock));
    let outbound = EgressClient::new(EgressPolicy::Anywhere);
    let auth = Auth::new(None, store, outbound, &service);
    let agents = Agents::new(service.clone(), Vec::new()).expect("agents");
    ApiState::new(service, agents, auth)
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn values(frames: Vec<String>) -> Vec<Value> {
    frames.iter().map(|frame| value(frame)).collect()
}

fn ok(join_ref: &str, reference: &str, topic: &str) -> Value {
    json!([join_ref, reference, topic, "phx_reply", { "status": "ok", "response": {} }])
}

fn joined(join_ref: &str, topic: &str) -> Value {
    json!([join_ref, join_ref, topic, "phx_reply", { "status": "ok", "response": { "params": {} } }])
}

fn number(join_ref: &str, topic: &str, number: u64) -> Value {
    json!([join_ref, null, topic, "number", { "n": number }])
}

/// Keeps values alive that must live as long as a test's service.
type Stop = oneshot::Sender<()>;

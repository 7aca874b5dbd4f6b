//! Frames that answer the frames of a client.

use serde::Serialize;
use serde_json::{Value, json};
use threadline_core::{Epoch, FeedCursor, Run, RunId, ThreadId};
use threadline_engine::subscription::Subscription;
use threadline_http::{
    cursor::{after_in_feed, after_in_log},
    problem::Problem,
    view::RunView,
};

use crate::api::socket::frames::frame;

/// Answer that is ready, and the bytes of the frame that it answers: they count against the in-flight limit of one
/// client.
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) bytes: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InThread<'a, T> {
    thread_id: &'a str,
    #[serde(flatten)]
    body: T,
}

/// Body of the frame with which a subscription starts.
pub(super) fn hello(thread: &ThreadId, subscription: &Subscription, run: Option<&RunId>) -> Value {
    json!({
        "threadId": thread.as_str(),
        "epoch": subscription.epoch().to_string(),
        "tail": subscription.tail(),
        "after": subscription.cursor(),
        "nextCursor": after_in_log(subscription.epoch(), subscription.cursor()),
        "runId": run.map(RunId::as_str),
    })
}

/// Body of the frame with which a subscription to the feed starts.
pub(super) fn feed_hello(cursor: FeedCursor) -> Value {
    json!({ "epoch": cursor.epoch.to_string(), "cursor": cursor.position, "nextCursor": after_in_feed(cursor) })
}

/// Body of the frame that tells that the feed continues under another epoch.
pub(super) fn feed_rebased(from: Epoch, cursor: FeedCursor) -> Value {
    json!({ "from": from.to_string(), "epoch": cursor.epoch.to_string(), "cursor": cursor.position })
}

pub(super) fn run_frame(id: Option<&str>, name: &str, thread: &ThreadId, run: &Run) -> String {
    frame(id, name, &InThread { thread_id: thread.as_str(), body: RunView::new(run) })
}

pub(super) fn error_frame(id: Option<&str>, problem: Problem) -> String {
    frame(id, "error", &problem.document())
}

/// Adds the thread that a problem is about: a client has many threads on one socket.
pub(super) fn in_thread(mut problem: Problem, thread: &str) -> Problem {
    problem.facts.insert("threadId".into(), thread.into());
    problem
}

//! Rust client of Threadline: typed requests, a producer that retries, a reader that reconnects.
//!
//! - [`Client`]: one typed method per route; one call is one request.
//! - [`Producer`] (from [`Client::run`]): starts a run, numbers and appends its events, keeps its lease, ends it.
//! - [`Client::tail`]: a thread's events as a stream without end, from a cursor on, without gap or duplicate.
//! - [`Client::start_or_queue`]: a run of an agent, which may wait in the queue of its thread; [`Client::queue`] reads it.
//! - [`Client::conversation`] and [`Client::save_conversation`]: a thread's messages as one list.
//! - [`Socket`]: the frames themselves, for programs that follow many threads on one connection.
//!
//! ```no_run
//! # async fn example() -> Result<(), threadline_client::ClientError> {
//! use futures_util::StreamExt;
//! use threadline_client::{Client, ClientConfig, TailItem, TailOptions};
//!
//! let client = Client::new(ClientConfig::new("http://127.0.0.1:7420"))?;
//! let mut tail = client.tail("my-thread", TailOptions::default());
//! while let Some(item) = tail.next().await {
//!     if let TailItem::Event { seq, event, .. } = item? {
//!         println!("{seq} {event}");
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `examples/rust` has two programs that use the client; `docs/rust.md` describes how readers and producers resume.
//!
//! Of the server only its vocabulary and limits are known here, [`threadline_core`].

#![warn(missing_docs)]

mod backoff;
mod body;
mod conversations;
mod error;
mod follow;
mod forks;
mod frame;
mod http;
mod identity;
mod inbox;
mod parse;
mod producer;
mod queue;
mod queueing;
mod rest;
mod socket;
mod tail;
mod wire;

pub use backoff::{Backoff, Decision, Retry};
pub use body::EventBody;
pub use conversations::{Conversation, ETag, SaveIf, SavedConversation};
pub use error::{ClientError, Problem};
pub use forks::{ForkPoint, ForkThread, ForkedFrom, RunFork};
pub use frame::{
    AppendedFrame, ClientFrame, EndReason, Ended, EventBatch, Events, Hello, Position, QueueFrame, Rebased, RunName,
    ServerFrame, TailMark, event_array,
};
pub use http::{Client, ClientConfig};
pub use inbox::{InboxPage, InboxQuery, OpenInterrupt};
pub use producer::{Producer, RunOptions};
pub use queue::{Hold, PlacedTurn, Queue, QueueState, QueuedTurn};
pub use queueing::{EditTurn, RunAnswer, RunOrTurn, StartRun, TurnPlace};
pub use rest::{EventQuery, FeedQuery, StreamRun, ThreadOrder, ThreadQuery, ThreadStatus};
pub use socket::{Socket, SocketReader, SocketWriter};
pub use tail::{Tail, TailItem, TailOptions};
pub use threadline_core::agent::Busy;
pub use wire::{
    Appended, CreateThread, Envelope, EventPage, FeedEntry, FeedPage, LastRun, Messages, PatchThread, Readiness, Run,
    RunPage, RunStatus, StartedRun, Thread, ThreadPage, ThreadState,
};

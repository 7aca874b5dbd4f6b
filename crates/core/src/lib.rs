//! Vocabulary of Threadline and the folds over its events: pure types, parsed at the edge so that the inside never
//! re-validates.
//!
//! The crate depends on no runtime, database or transport.

#![warn(missing_docs)]

pub mod agent;
mod agent_data;
pub mod annotation;
mod author;
pub mod batch;
mod branch;
pub mod checkpoints;
pub mod envelope;
pub mod event;
pub mod feed;
mod hex;
pub mod id;
pub mod identity;
pub mod interrupt;
pub mod items;
pub mod json;
pub mod kv;
pub mod limits;
pub mod lineage;
pub mod lines;
pub mod node;
pub mod origin;
pub mod page;
pub mod principal;
pub mod projection;
pub mod queue;
pub mod quota;
pub mod run;
pub mod search;
mod seq;
mod store_error;
pub mod streams;
pub mod thread;
pub mod time;
mod tool_claim;
pub mod trash;
pub mod usage;
pub mod version;

pub use annotation::{Annotation, AnnotationError, NewAnnotation};
pub use author::Author;
pub use batch::{Batch, LogSlice};
pub use branch::{Branch, Family, ForkedFrom};
pub use event::{EventError, EventErrorKind, NewEvents, Terminal};
pub use feed::{FeedChange, FeedCursor, FeedEntry, FeedHead};
pub use hex::hex;
pub use id::{
    AgentId, AnnotationId, AttemptId, ClientId, DriverFence, Epoch, Fence, IdError, IdText, KeyId, ProjectId, RunId,
    ThreadId, ThreadKey, ToolCallId, UserId, WriteFence,
};
pub use identity::{
    ApiKey, AuditEntry, Born, Cutoff, CutoffKind, DEFAULT_PROJECT, Digest, EventValidation, Footprint, IssuerSettings,
    KeyUse, ProjectSettings, Retention,
};
pub use interrupt::OpenInterrupt;
pub use lineage::{Generation, Judgement, LogHistory, PriorEpoch};
pub use lines::lines;
pub use node::{Node, NodeId};
pub use origin::{AllowedOrigins, Origin};
pub use page::{ListOrder, ListPosition, ReadFrom};
pub use principal::{Credential, Principal, Scope, Scopes, TokenMaker};
pub use queue::{Hold, QueueState};
pub use quota::{Limit, Limits, ProjectLimits, Quotas};
pub use run::{LastRun, Run, RunStatus};
pub use search::NameSearch;
pub use seq::Seq;
pub use store_error::StoreError;
pub use thread::{CreatedThread, NameSource, NewThread, Thread, ThreadPatch, ThreadStatus};
pub use time::{Clock, Timestamp};
pub use tool_claim::ToolClaim;
pub use trash::{TrashPage, TrashPosition, TrashedThread};
pub use usage::{Usage, UsageOwner};
pub use version::Version;

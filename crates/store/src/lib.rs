//! The store port: threads, heads, runs, the log, the feed, snapshots, annotations and agents, on one back-end.
//!
//! ```text
//!   heads   one narrow row per thread: the only point of concurrency
//!           key | epoch | tail | fence | active run, its first_seq and producer_seq, lease_until, stop
//!   log     key | first_seq ............ last_seq | run | at | body        seqs 1 ..= tail, no hole
//!           [ sealed segment ][ sealed segment ][row][row][row]
//!                                                            ^ tail
//! ```
//!
//! Contract of every back-end (the contract suite in `tests/contract` runs on each of them):
//!
//! - **One statement.** Append, start, close and delete change a thread's head and its log together or
//!   not at all, and only if the head is as the caller expects (fence, and tail or producer_seq).
//! - **Durable.** A method that answered `Ok` has its effect on disk (the memory store: in memory).
//! - **Not cancellable.** A caller that drops the future does not leave anything half done.
//! - **Dense order.** A thread's events are `1..=tail`, and readers see only committed ones.
//! - **One clock.** Leases are judged by the store's clock, for all callers. A clock that is set ends no run: no lease is
//!   judged by a time later than [`StoreClock::bound`], and [`RunStore::renew_leases`] puts leases right afterwards.
//! - **Time in a log never goes back**, unless its newest event is more than an hour ahead.
//!
//! Every method can fail with [`StoreError`]: then the effect is unknown, and the caller may try again, because every
//! method may be repeated.

#![warn(missing_docs)]

pub mod annotations;
pub mod attempts;
mod branches;
pub mod checkpoints;
mod clock;
pub mod credentials;
mod damage;
pub mod erasure;
mod error;
pub mod identity;
pub mod items;
pub mod jobs;
pub mod kv;
pub mod lineage;
pub mod memory;
mod new_run;
pub mod nodes;
mod packing;
mod port;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod private;
pub mod queue;
mod records;
mod runs;
pub mod secrets;
pub mod segment;
pub mod snapshots;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod staging;
pub mod status;
pub mod streams;
mod tool_claims;
pub mod transfer;
pub mod trash;
pub mod turns;
pub mod usage;
pub mod verification;

pub use annotations::AnnotationStore;
pub use attempts::{AttemptStore, Displaced, ProducerTurn, TakeUp};
pub use branches::BranchStore;
pub use checkpoints::{
    CheckpointBound, CheckpointDone, CheckpointPart, CheckpointPlace, CheckpointScope, CheckpointStore, CheckpointWalk,
    DeletedCheckpoints, PutCheckpoint,
};
pub use clock::{Steady, StoreClock};
pub use credentials::CredentialStore;
pub use damage::damaged_rows;
pub use erasure::{ErasureStore, IdlePage, IdlePlace};
pub use error::{StoreError, StoreResult};
pub use identity::{IdentityStore, StoredProject};
pub use items::{ItemPage, ItemStore, ListDone, ListEdit, ListOp};
pub use jobs::{Job, JobEnd, JobKind, JobLevel, JobStore, JobSubject, Packing, Purging, PutJob};
pub use kv::{KvChange, KvFound, KvPut, KvRange, KvStore, KvTimes, KvWrite, KvWritten, MovedKv, OwnedPlace};
pub use lineage::{GenerationRecord, Lineage, LineageCause, LineageFence, LineageState, LineageStore};
pub use nodes::{Beat, NewBeat, NodeStore};
pub use port::{AgentStore, DynStore, FeedStore, LogStore, RunStore, Store, ThreadStore};
pub use queue::{Advance, Advanced, ChangeQueue, Queue, QueueStore, QueuedTurn};
pub use records::{ActiveHead, Append, Appended, FeedPage, Head, ListThreads, LogPage, Named, ThreadPage};
pub use runs::{
    ActiveRuns, Claimed, CloseOutcome, CloseWhen, Closing, Committed, Due, HeartbeatRequest, Renewal, Renewed,
    StartOutcome, StartRun, StopOutcome,
};
pub use secrets::{DigestKey, SecretAccess, SecretForm, SecretName, SecretStore, SecretsError};
pub use snapshots::{Snapshot, SnapshotStore, Unprojected};
pub use staging::{Arrival, MovedThread, Published, StagedPart, StagedRow, Staging, StagingStore};
pub use status::{Durability, StatusStore, StoreStatus};
pub use streams::{MovedStream, StreamPart, StreamStore, StreamTransfer, StreamWrite, StreamWriteKind, SweptStreams};
pub use tool_claims::{ClaimOutcome, ToolClaimStore};
pub use transfer::{AnnotatedThread, ExportStore, FeedImage, TransferStore};
pub use trash::{HoldStore, Restoration, RetentionHold, TrashStore};
pub use turns::{Before, ClaimTurns, NewTurn, TakeTurn, Taken, Turn, TurnStore};
pub use usage::UsageStore;
pub use verification::{CountedQueue, KeyedTable, ListedThread, StoredEntry, VerifyStore};

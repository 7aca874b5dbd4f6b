//! Moves threads between stores through files: `threadline export` and `threadline import`.
//!
//! ```text
//!   store ──► one file per thread, then the manifest ──► staged unseen ──► published, thread by thread ──► store
//! ```
//!
//! The files are described in `proto/export.md`. Both commands may be interrupted at any moment and repeated: a thread
//! is complete or absent, and existing data is verified and skipped.

mod agents;
mod annotations;
mod branches;
mod checkpoints;
mod compare;
mod counts;
mod directory;
mod error;
mod export;
mod format;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod import;
mod items;
mod kv;
mod manifest;
pub mod projects;
mod reading;
mod selection;
mod streams;
mod verify;

pub use counts::Transferred;
pub use error::{Damage, Refusal, TransferError};
pub use export::export;
pub use import::import;
pub use selection::{ExportedSecrets, Selection};
pub use verify::{Finding, FindingKind, Scope, Verified, verify};

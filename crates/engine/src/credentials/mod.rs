//! Credentials that can be taken back, and are seen: sign-outs, and what the audit log and the keys show of their use.

pub(crate) mod cutoffs;
pub(crate) mod sweep;
pub(crate) mod trail;

pub use cutoffs::{Cutoffs, Holder, Subject};
pub use trail::{MadeToken, Refused, Trail};

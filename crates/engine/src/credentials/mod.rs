//! Sign-outs, and the record of the use of credentials in the audit log and on keys.

pub(crate) mod cutoffs;
pub(crate) mod sweep;
pub(crate) mod trail;

pub use cutoffs::{Cutoffs, Holder, Subject};
pub use trail::{MadeToken, Refused, Trail};

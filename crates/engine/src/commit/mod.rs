//! Group commits: appends from the request to the receipt.

pub(crate) mod committer;
pub(crate) mod pipeline;
pub(crate) mod receipt;
pub(crate) mod requests;
pub(crate) mod resolve;

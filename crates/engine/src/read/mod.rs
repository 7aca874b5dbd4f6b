//! Reads of threads: pages, subscriptions, feeds, followers and conversations.

pub(crate) mod events;
pub(crate) mod feed;
pub(crate) mod folding;
pub(crate) mod followers;
pub(crate) mod held;
pub(crate) mod projections;
pub(crate) mod recheck;

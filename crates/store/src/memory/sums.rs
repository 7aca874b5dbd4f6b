//! The table of the sums of stored data.

use std::collections::BTreeMap;

use threadline_core::{Timestamp, Usage, UsageOwner};

/// A sum, with the time of its last count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sum {
    pub(super) usage: Usage,
    pub(super) checked_at: Timestamp,
}

/// The sums, one of each owner.
pub(super) type Sums = BTreeMap<UsageOwner, Sum>;

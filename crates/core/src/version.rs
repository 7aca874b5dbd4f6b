//! Version of a conversation, for conditional requests.

use super::Epoch;
use crate::seq::Seq;

/// Version of a conversation, changed by every event. Its entity tag (RFC 9110, section 8.8.3) is made of both parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Incarnation of the log.
    pub epoch: Epoch,
    /// Seq of the newest event that the version has; 0 for an empty log.
    pub seq: Seq,
}

//! Sizes of agent data, as quotas and limits count them.

use crate::limits::AGENT_DATA_ROW_BYTES;

/// Counted bytes of a row, from the lengths of its names and of its value.
pub(crate) fn row_size(parts: &[usize]) -> i64 {
    i64::try_from(AGENT_DATA_ROW_BYTES + parts.iter().sum::<usize>()).unwrap_or(i64::MAX)
}

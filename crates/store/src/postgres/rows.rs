//! Names that all modules of this back-end use for statements and rows.

pub(super) use crate::sql::{columns::Columns, limit, millis, queries::text_of, to_i64};

/// A text as Postgres can keep it, which has no character 0. Ids and JSON never have one.
pub(super) fn text(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

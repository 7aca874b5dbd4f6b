//! Values, as all modules of this back-end bind and read them.

pub(super) use crate::sql::{columns::Columns, limit, millis, to_i64};

/// A text as Postgres can keep it, which has no character 0. Ids and JSON never have one.
pub(super) fn text(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

//! Names that all modules of this back-end use for statements and rows.

pub(super) use crate::sql::{columns::Columns, limit, millis, queries::text_of, to_i64};

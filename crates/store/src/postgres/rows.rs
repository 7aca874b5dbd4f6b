//! Lists of columns, in the order in which [`Columns`] reads them.

pub(super) use crate::sql::{columns::Columns, limit, millis, to_i64};

/// Columns of a head, as [`Columns::head`] reads them.
macro_rules! head_columns {
    () => {
        head_columns!(h)
    };
    ($h:ident) => {
        concat!(
            stringify!($h),
            ".key, ",
            stringify!($h),
            ".epoch, ",
            stringify!($h),
            ".tail, ",
            stringify!($h),
            ".fence, ",
            "CASE WHEN ",
            stringify!($h),
            ".active THEN ",
            stringify!($h),
            ".run END, ",
            stringify!($h),
            ".producer_seq, ",
            stringify!($h),
            ".lease_until, ",
            stringify!($h),
            ".stop_at, ",
            stringify!($h),
            ".finishing"
        )
    };
}
pub(super) use head_columns;

/// Columns of a run, as [`Columns::run`] reads them.
macro_rules! run_columns {
    () => {
        run_columns!(r)
    };
    ($r:ident) => {
        concat!(
            stringify!($r),
            ".fence, ",
            stringify!($r),
            ".id, ",
            stringify!($r),
            ".agent, ",
            stringify!($r),
            ".status, ",
            stringify!($r),
            ".error_code, ",
            stringify!($r),
            ".error_message, ",
            stringify!($r),
            ".usage, ",
            stringify!($r),
            ".first_seq, ",
            stringify!($r),
            ".producer_seq, ",
            stringify!($r),
            ".started_at, ",
            stringify!($r),
            ".ended_at, ",
            stringify!($r),
            ".stop_at, ",
            stringify!($r),
            ".driven"
        )
    };
}
pub(super) use run_columns;

/// Columns of a thread with its head and its active run, as [`Columns::thread`] reads them.
macro_rules! thread_columns {
    () => {
        concat!(
            "t.project, t.id, t.user_id, t.agent, t.name, t.name_source, t.archived, t.metadata, t.created_at, \
             t.updated_at, t.last_run_at, t.version, t.created_with, t.read_seq, ",
            head_columns!(),
            ", ",
            run_columns!()
        )
    };
}
pub(super) use thread_columns;

/// Joins the head `h` and the active run `r` to a thread `t`. Each is looked up by its key for the row before it: the
/// planner, whose statistics may be from tables of three rows, has no other choice.
macro_rules! with_head_and_run {
    () => {
        " CROSS JOIN LATERAL (SELECT * FROM heads WHERE heads.key = t.key OFFSET 0) AS h
          LEFT JOIN LATERAL (SELECT * FROM runs WHERE runs.key = h.key AND runs.fence = h.fence AND h.active OFFSET 0) AS r
            ON TRUE"
    };
}
pub(super) use with_head_and_run;

/// The present moment, once per statement: `$1`, or the database's clock if that is NULL.
macro_rules! now {
    () => {
        "c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)"
    };
}
pub(super) use now;

/// A text as Postgres can keep it, which has no character 0. Ids and JSON never have one.
pub(super) fn text(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

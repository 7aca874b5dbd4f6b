//! Column lists of statements, in the order in which [`Columns`] takes them.

pub(super) use crate::sql::{columns::Columns, limit, millis, to_i64};

/// Columns of a head, as [`Columns::head`] takes them (without the alias: in a RETURNING).
macro_rules! head_columns {
    () => {
        "key, epoch, tail, fence, run, producer_seq, lease_until, stop_at, finishing"
    };
    (h) => {
        "h.key, h.epoch, h.tail, h.fence, h.run, h.producer_seq, h.lease_until, h.stop_at, h.finishing"
    };
}
pub(super) use head_columns;

/// Columns of a run, as [`Columns::run`] takes them.
macro_rules! run_columns {
    () => {
        "r.fence, r.id, r.agent, r.status, r.error_code, r.error_message, r.usage, r.first_seq, r.producer_seq, r.started_at, \
         r.ended_at, r.stop_at, r.driven"
    };
}
pub(super) use run_columns;

/// Columns of a thread with its head and its active run, as [`Columns::thread`] takes them.
macro_rules! thread_columns {
    () => {
        concat!(
            "t.project, t.id, t.user, t.agent, t.name, t.name_source, t.archived, t.metadata, t.created_at, \
             t.updated_at, t.last_run_at, t.version, t.created_with, t.read_seq, ",
            head_columns!(h),
            ", ",
            run_columns!()
        )
    };
}
pub(super) use thread_columns;

//! Annotations of threads, each in one statement.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{Annotation, NewAnnotation, ThreadKey, limits::PG_RACES};

use super::{
    PgStore,
    fetch::Kind,
    rows::{self, Columns, now},
};
use crate::{
    AnnotationStore, StoreError, StoreResult,
    sql::annotations::{self, annotation_columns},
};

/// The lock of the head prevents a deletion of the thread meanwhile, and no append waits for it. The second statement
/// with the same id waits for the row in `annotated`, and the index refuses it. Returns whether the thread exists, and
/// whether the annotation was stored.
pub(super) const PUT: &str = concat!(
    "WITH ",
    now!(),
    ", thread AS MATERIALIZED (
       SELECT h.key FROM heads h WHERE h.key = $2::bigint FOR KEY SHARE
     ), counted AS (
       INSERT INTO annotated AS n (key, newest)
       SELECT thread.key, 1 FROM thread WHERE NOT EXISTS (SELECT 1 FROM annotations WHERE key = $2 AND id = $3::text)
       ON CONFLICT (key) DO UPDATE SET newest = n.newest + 1
       RETURNING n.newest
     ), put AS (
       INSERT INTO annotations (key, number, id, kind, occurred_at, at, payload)
       SELECT $2, counted.newest, $3, $4::text, $5::bigint, coalesce($6::bigint, c.now), $7::text FROM counted CROSS JOIN c
       RETURNING number
     )
     SELECT EXISTS (SELECT 1 FROM thread), EXISTS (SELECT 1 FROM put)"
);
pub(super) const PAGE: &str = concat!(
    "SELECT ",
    annotation_columns!(),
    " FROM heads h LEFT JOIN LATERAL (
        SELECT * FROM annotations WHERE annotations.key = h.key AND annotations.number > $2::bigint
        ORDER BY annotations.number LIMIT $3::bigint
      ) AS a ON TRUE
      WHERE h.key = $1::bigint ORDER BY a.number"
);
pub(super) const THREADS: &str = "\
    SELECT t.key, t.project, t.id, h.epoch FROM annotated n
    CROSS JOIN LATERAL (SELECT * FROM heads WHERE heads.key = n.key OFFSET 0) AS h
    CROSS JOIN LATERAL (SELECT * FROM threads WHERE threads.key = h.key OFFSET 0) AS t
    WHERE n.key > $1::bigint ORDER BY n.key LIMIT $2::bigint";

#[async_trait]
impl AnnotationStore for PgStore {
    async fn put_annotation(&self, key: ThreadKey, annotation: NewAnnotation) -> StoreResult<Option<bool>> {
        for _ in 0..PG_RACES {
            let put = query(PUT)
                .bind(self.now())
                .bind(key.0)
                .bind(annotation.id.as_str())
                .bind(&annotation.kind)
                .bind(annotation.occurred_at.map(|at| at.0))
                .bind(annotation.at.map(|at| at.0))
                .bind(&annotation.payload);
            let rows = match self.write_once(put).await {
                // Another caller has stored this id a moment ago: the next attempt sees it.
                Err(failure) if failure.kind == Kind::Duplicate => continue,
                done => done?,
            };
            let Some(row) = rows.first() else { return Ok(None) };
            let mut columns = Columns::new(row);
            let (there, put) = (columns.flag()?, columns.flag()?);
            return Ok(there.then_some(put));
        }
        Err(StoreError::Unavailable("the annotation is put and removed all the time".to_owned()))
    }

    async fn annotations(
        &self,
        key: ThreadKey,
        after: u64,
        limit: usize,
    ) -> StoreResult<Option<Vec<(u64, Annotation)>>> {
        let page = query(PAGE).bind(key.0).bind(rows::to_i64(after)).bind(rows::limit(limit));
        annotations::annotations(&self.read_rows(page).await?)
    }
}

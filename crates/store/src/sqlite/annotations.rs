//! Annotations of threads. One connection writes, so that the next number is one more than the last.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{Annotation, NewAnnotation, ThreadKey};

use super::{SqliteStore, fetch, rows};
use crate::{
    AnnotationStore, StoreResult,
    sql::annotations::{self, annotation_columns},
};

pub(super) const PUT: &str = "\
    INSERT INTO annotations (key, number, id, kind, occurred_at, at, payload)
    SELECT ?1, coalesce((SELECT max(number) FROM annotations WHERE key = ?1), 0) + 1, ?2, ?3, ?4, ?5, ?6
    WHERE EXISTS (SELECT 1 FROM heads WHERE key = ?1)
      AND NOT EXISTS (SELECT 1 FROM annotations WHERE key = ?1 AND id = ?2)";
pub(super) const PAGE: &str = concat!(
    "SELECT ",
    annotation_columns!(),
    " FROM heads h LEFT JOIN annotations a ON a.key = ?1 AND a.number > ?2
      WHERE h.key = ?1 ORDER BY a.number LIMIT ?3"
);
/// Threads with annotations, for an export, which walks over all threads anyway.
pub(super) const THREADS: &str = "\
    SELECT t.key, t.project, t.id, h.epoch FROM heads h CROSS JOIN threads t ON t.key = h.key
    WHERE h.key > ?1 AND EXISTS (SELECT 1 FROM annotations a WHERE a.key = h.key) ORDER BY h.key LIMIT ?2";

#[async_trait]
impl AnnotationStore for SqliteStore {
    async fn put_annotation(&self, key: ThreadKey, annotation: NewAnnotation) -> StoreResult<Option<bool>> {
        let clock = self.inner.clock.clone();
        self.transact(move |connection| {
            Box::pin(async move {
                let made = annotation.made(clock.now());
                let put = query(PUT)
                    .bind(key.0)
                    .bind(made.id.as_str())
                    .bind(&made.kind)
                    .bind(made.occurred_at.map(|at| at.0))
                    .bind(made.at.0)
                    .bind(&made.payload);
                if fetch::change(connection, put).await? > 0 {
                    return Ok(Some(true));
                }
                let there = fetch::row(connection, query("SELECT 1 FROM heads WHERE key = ?").bind(key.0)).await?;
                Ok(there.map(|_| false))
            })
        })
        .await
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

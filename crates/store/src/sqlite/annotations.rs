//! Annotations of threads. One connection writes, so that the next number is one more than the last.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{Annotation, NewAnnotation, ThreadKey};

use super::{
    SqliteStore, fetch,
    rows::{self, text_of},
};
use crate::{AnnotationStore, StoreResult, sql::annotations};

pub(super) const PUT: &str = text_of(include_str!("../../queries/sqlite/put_annotation.sql"));
pub(super) const PAGE: &str = text_of(include_str!("../../queries/sqlite/annotations.sql"));
pub(super) const THREADS: &str = text_of(include_str!("../../queries/sqlite/annotated_threads.sql"));

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

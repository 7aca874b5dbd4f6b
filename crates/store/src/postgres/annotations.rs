//! Annotations of threads, each in one statement.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{Annotation, NewAnnotation, ThreadKey, limits::PG_RACES};

use super::{
    PgStore,
    fetch::Kind,
    rows::{self, Columns, text_of},
};
use crate::{AnnotationStore, StoreError, StoreResult, sql::annotations};

pub(super) const PUT: &str = text_of(include_str!("../../queries/postgres/put_annotation.sql"));
pub(super) const PAGE: &str = text_of(include_str!("../../queries/postgres/annotations.sql"));
pub(super) const THREADS: &str = text_of(include_str!("../../queries/postgres/annotated_threads.sql"));

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

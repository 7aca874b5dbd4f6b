//! Annotations of threads: stored once per id, read in pages.

use async_trait::async_trait;
use threadline_core::{Annotation, NewAnnotation, ThreadKey};

use super::Tables;
use crate::{
    AnnotationStore, StoreResult,
    sql::{annotations, limit as count, to_i64},
};

const EXISTS: &str = "SELECT 1 FROM heads WHERE key = $1";

#[async_trait]
impl<S: Tables> AnnotationStore for S {
    async fn put_annotation(&self, key: ThreadKey, annotation: NewAnnotation) -> StoreResult<Option<bool>> {
        let values = vec![
            self.time().into(),
            key.0.into(),
            annotation.id.as_str().into(),
            annotation.kind.into(),
            annotation.occurred_at.map(|at| at.0).into(),
            annotation.at.map(|at| at.0).into(),
            annotation.payload.into(),
        ];
        if !self.changed(S::STATEMENTS.put_annotation, values).await?.is_empty() {
            return Ok(Some(true));
        }
        // The id is taken, or the thread was deleted, if not before then after the statement.
        let exists = !self.found(EXISTS, vec![key.0.into()]).await?.is_empty();
        Ok(exists.then_some(false))
    }

    async fn annotations(
        &self,
        key: ThreadKey,
        after: u64,
        limit: usize,
    ) -> StoreResult<Option<Vec<(u64, Annotation)>>> {
        let values = vec![key.0.into(), to_i64(after).into(), count(limit).into()];
        annotations::annotations(&self.found(S::STATEMENTS.annotations, values).await?)
    }
}

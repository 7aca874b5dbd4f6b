//! Writes of plain streams: one statement each.

use async_trait::async_trait;

use super::{
    PgStore,
    rows::{self, text_of},
};
use crate::{
    StoreResult, StreamWrite, StreamWriteKind,
    sql::{
        kv::stored_owner,
        streams::{StreamTables, stored},
        tables::{Tables, Value},
    },
};

pub(super) const WRITE: &str = text_of(include_str!("../../queries/postgres/write_stream.sql"));

#[async_trait]
impl StreamTables for PgStore {
    async fn write_row(&self, write: StreamWrite) -> StoreResult<bool> {
        let record = stored(&write.record)?;
        let StreamWrite { key, tag, expires_at, chunk, added, kind, .. } = write;
        let (place, source, former, producer) = match kind {
            StreamWriteKind::Create { place, source } => (Some(place), source, None, None),
            StreamWriteKind::Append { former, producer } => (None, None, Some(former), producer),
        };
        let named = place.as_ref().map_or(["", "", ""], |place| {
            [place.owner.project.as_str(), stored_owner(&place.owner), place.path.as_str()]
        });
        let mut values: Vec<Value> = vec![self.time().into(), key.0.into(), tag.into(), record.into()];
        values.extend([expires_at.map(|at| at.0).into(), added.into(), former.into()]);
        values.extend(named.map(Value::from));
        values.push(source.map(|source| source.0).into());
        values.extend([
            chunk.as_ref().map(|chunk| rows::to_i64(chunk.first)).into(),
            chunk.as_ref().map(|chunk| rows::to_i64(chunk.last)).into(),
            chunk.map(|chunk| chunk.body).unwrap_or_default().into(),
        ]);
        values.extend([
            producer.as_ref().map(|producer| rows::to_i64(producer.epoch)).into(),
            producer.as_ref().map(|producer| rows::to_i64(producer.seq)).into(),
            producer.map(|producer| producer.id).into(),
        ]);
        Ok(!self.changed(WRITE, values).await?.is_empty())
    }
}

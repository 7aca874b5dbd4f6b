//! Writes of plain streams: one transaction each.

use async_trait::async_trait;
use sqlx::{SqliteConnection, query};
use threadline_core::streams::Producer;

use super::{
    SqliteStore,
    fetch::{self, Work},
    rows,
};
use crate::{
    StoreResult, StreamWrite, StreamWriteKind,
    sql::{
        kv::stored_owner,
        streams::{StreamTables, stored},
    },
};

const CREATE: &str = "\
    INSERT INTO streams (key, project, owner, path, tag, state, parent, expires_at, size, record)
    SELECT ?1, ?2, ?3, ?4, ?5, 0, ?6, ?7, ?8, ?9
    WHERE ?6 IS NULL OR EXISTS (SELECT 1 FROM streams WHERE key = ?6 AND state = 0)
    ON CONFLICT DO NOTHING";
const CHANGE: &str = "\
    UPDATE streams SET tag = ?2, record = ?3, expires_at = ?4, size = size + ?5
    WHERE key = ?1 AND tag = ?6 AND state = 0";
const ADD: &str = "INSERT INTO stream_chunks (stream, first, last, size, body) VALUES (?1, ?2, ?3, ?4, ?5)";
const NOTE: &str = "\
    INSERT INTO stream_producers (stream, producer, epoch, seq) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (stream, producer) DO UPDATE SET epoch = excluded.epoch, seq = excluded.seq";

#[async_trait]
impl StreamTables for SqliteStore {
    async fn write_row(&self, write: StreamWrite) -> StoreResult<bool> {
        let record = stored(&write.record)?;
        self.transact(move |connection| Box::pin(carry_out(connection, write, record))).await
    }
}

async fn carry_out(connection: &mut SqliteConnection, write: StreamWrite, record: Vec<u8>) -> Work<bool> {
    let StreamWrite { key, tag, expires_at, chunk, added, kind, .. } = write;
    let expires_at = expires_at.map(|at| at.0);
    let (row, producer) = match &kind {
        StreamWriteKind::Create { place, source } => {
            let create = query(CREATE)
                .bind(key.0)
                .bind(place.owner.project.as_str())
                .bind(stored_owner(&place.owner))
                .bind(place.path.as_str())
                .bind(tag)
                .bind(source.map(|source| source.0))
                .bind(expires_at)
                .bind(added)
                .bind(record);
            (create, None)
        }
        StreamWriteKind::Append { former, producer } => {
            let change = query(CHANGE).bind(key.0).bind(tag).bind(record).bind(expires_at).bind(added).bind(*former);
            (change, producer.as_ref())
        }
    };
    if fetch::change(connection, row).await? == 0 {
        return Ok(false);
    }
    if let Some(chunk) = chunk {
        let add = query(ADD)
            .bind(key.0)
            .bind(rows::to_i64(chunk.first))
            .bind(rows::to_i64(chunk.last))
            .bind(rows::limit(chunk.body.len()))
            .bind(chunk.body);
        fetch::run(connection, add).await?;
    }
    if let Some(Producer { id, epoch, seq }) = producer {
        let note = query(NOTE).bind(key.0).bind(id.as_str()).bind(rows::to_i64(*epoch)).bind(rows::to_i64(*seq));
        fetch::run(connection, note).await?;
    }
    Ok(true)
}

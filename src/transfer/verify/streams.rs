//! Plain streams: their content is complete, and the streams that they read from exist.

use threadline_core::{
    limits::{MAX_PAGE, STREAM_CHUNKS},
    streams::Stream,
};
use threadline_store::{MovedStream, StoreResult, VerifyStore};

use super::{
    Scope, Verified,
    finding::{Finding, FindingKind, readable},
};
use crate::transfer::streams::by_key;

/// Bytes of content that are read at once.
const PART_BYTES: usize = 1_024 * 1_024;

/// Verifies the streams of a project, or of all.
pub(super) async fn verify(
    store: &dyn VerifyStore,
    scope: &Scope,
    done: &mut Verified,
    findings: &mut Vec<Finding>,
) -> StoreResult<()> {
    let mut after = None;
    loop {
        let page = readable(store.all_streams(after, MAX_PAGE).await, findings, |reason| {
            Finding::of_store(FindingKind::TableUnreadable, format!("streams cannot be read to the end: {reason}"))
        })?;
        let Some(page) = page.filter(|page| !page.is_empty()) else { return Ok(()) };
        after = page.last().map(|moved| moved.stream.key);
        for moved in page {
            if scope.project.as_ref().is_none_or(|project| *project == moved.place.owner.project) {
                done.streams += 1;
                findings.extend(twice(store, moved, done).await?);
            }
        }
    }
}

/// Verifies a stream. A finding counts only if a second look finds it again.
async fn twice(store: &dyn VerifyStore, mut moved: MovedStream, done: &mut Verified) -> StoreResult<Vec<Finding>> {
    let first = one(store, &moved, done).await?;
    if first.is_empty() {
        return Ok(first);
    }
    match store.stream(&moved.place, None).await? {
        Some((now, _)) if now.key == moved.stream.key => moved.stream = now,
        _ => return Ok(Vec::new()),
    }
    let second = one(store, &moved, &mut Verified::default()).await?;
    Ok(second.into_iter().filter(|finding| first.iter().any(|earlier| earlier.kind == finding.kind)).collect())
}

async fn one(store: &dyn VerifyStore, moved: &MovedStream, done: &mut Verified) -> StoreResult<Vec<Finding>> {
    let mut findings = Vec::new();
    let owner = &moved.place.owner;
    let user = owner.user.as_ref().map(|user| format!(" of user {user}")).unwrap_or_default();
    let name = format!("stream {}{user} in project {}", moved.place.path, owner.project);
    let record = &moved.stream.record;
    for part in &record.inherited {
        let source = readable(by_key(store, part.stream).await, &mut findings, |reason| {
            Finding::of_store(FindingKind::TableUnreadable, format!("streams cannot be read to the end: {reason}"))
        })?;
        let (key, until) = (part.stream.0, part.until);
        let why = match source {
            Some(None) => "which does not exist".to_owned(),
            Some(Some(source)) if source.record.tail < until => format!("which ends at {}", source.record.tail),
            _ => continue,
        };
        let detail = format!("{name} reads up to {until} from the stream with key {key}, {why}");
        findings.push(Finding::of_store(FindingKind::StreamWithoutSource, detail));
    }
    let read = readable(content(store, &moved.stream, done).await, &mut findings, |reason| {
        Finding::of_store(FindingKind::StreamIncomplete, format!("the content of {name} cannot be read: {reason}"))
    })?;
    if let Some(read) = read.filter(|read| *read != record.tail) {
        let detail = format!("the content of {name} is complete up to {read}, but its tail is {}", record.tail);
        findings.push(Finding::of_store(FindingKind::StreamIncomplete, detail));
    }
    Ok(findings)
}

/// Position up to which the own content of a stream is complete.
async fn content(store: &dyn VerifyStore, stream: &Stream, done: &mut Verified) -> StoreResult<u64> {
    let mut read = stream.record.own_from();
    loop {
        let page = store.stream_chunks(stream.key, read, STREAM_CHUNKS, PART_BYTES).await?;
        if page.is_empty() {
            return Ok(read);
        }
        for chunk in page {
            done.bytes += chunk.body.len() as u64;
            if chunk.first != read || !chunk.is_whole(&stream.record.content_type) {
                return Ok(read);
            }
            // An append may have come after the row was read.
            if chunk.last > stream.record.tail {
                return Ok(stream.record.tail);
            }
            read = chunk.last;
        }
    }
}

//! Encoding of events in log rows, and the merging of rows into segments.
//!
//! A fresh row is one append batch: the events, one per line. Rows are later merged by size, across runs, into
//! segments: one zstd frame over an index and the events. The index lists (count, run, at) per batch, so that a reader
//! sees exactly what it would have seen before sealing.
//!
//! ```text
//!   zstd( runs: n, (len, id)*   batches: n, (count, run no., at delta zigzag)*   events, one per line )
//!          all numbers LEB128
//! ```

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use memchr::memchr_iter;
use threadline_core::{
    Batch, RunId, Seq, Timestamp,
    limits::{MAX_BATCH_BYTES, SEGMENT_MAX_BYTES, SEGMENT_MIN_EVENTS, SEGMENT_TARGET_BYTES},
};

use crate::error::StoreError;

/// zstd level: level 1 packs token deltas as small as level 3, and faster.
const LEVEL: i32 = 1;

/// A row of the log as it is stored.
#[derive(Debug, Clone)]
pub struct LogRow {
    /// Seq of the first event.
    pub first_seq: Seq,
    /// Seq of the last event.
    pub last_seq: Seq,
    /// Commit time of the (first) batch.
    pub at: Timestamp,
    /// The run of a fresh row; `None` for a segment, which names its runs inside.
    pub run: Option<RunId>,
    /// The events of a fresh row, or the zstd frame of a segment.
    pub body: Bytes,
}

impl LogRow {
    /// The batches that this row holds.
    pub fn unpack(self) -> Result<Vec<Arc<Batch>>, StoreError> {
        match self.run {
            Some(run) => Ok(vec![Arc::new(Batch::new(self.first_seq, self.last_seq, run, self.at, self.body))]),
            None => decode(&self),
        }
    }
}

/// A segment that is ready to replace rows.
#[derive(Debug, Clone)]
pub struct Segment {
    /// Seq of the first event.
    pub first_seq: Seq,
    /// Seq of the last event.
    pub last_seq: Seq,
    /// Commit time of the first batch.
    pub at: Timestamp,
    /// Index and events, one zstd frame.
    pub body: Vec<u8>,
    /// Number of rows that the segment replaces.
    pub rows: usize,
    /// Bytes of events inside, uncompressed.
    pub raw: usize,
}

/// Cuts consecutive fresh rows into groups worth a segment each: about the target size, at least the smallest number of
/// events, never above the largest size. Remaining rows stay as they are.
pub fn plan(rows: &[Arc<Batch>]) -> Vec<std::ops::Range<usize>> {
    let mut groups = Vec::new();
    let (mut start, mut events, mut bytes) = (0, 0u64, 0usize);
    for (index, row) in rows.iter().enumerate() {
        let contiguous = index == start || rows[index - 1].last_seq + 1 == row.first_seq;
        if !contiguous || bytes + row.body.len() > SEGMENT_MAX_BYTES {
            if events >= SEGMENT_MIN_EVENTS {
                groups.push(start..index);
            }
            (start, events, bytes) = (index, 0, 0);
        }
        if row.body.len() > SEGMENT_MAX_BYTES {
            // Too large to share a segment: stays a row of its own.
            start = index + 1;
            continue;
        }
        events += row.count();
        bytes += row.body.len() + 1;
        if events >= SEGMENT_MIN_EVENTS && bytes >= SEGMENT_TARGET_BYTES {
            groups.push(start..index + 1);
            (start, events, bytes) = (index + 1, 0, 0);
        }
    }
    if events >= SEGMENT_MIN_EVENTS {
        groups.push(start..rows.len());
    }
    groups
}

/// Packs consecutive batches into a segment. `None` for an empty list.
pub fn encode(batches: &[Arc<Batch>]) -> Result<Option<Segment>, StoreError> {
    let (Some(first), Some(last)) = (batches.first(), batches.last()) else {
        return Ok(None);
    };
    let mut runs: Vec<&RunId> = Vec::new();
    let mut index = Vec::new();
    let mut entries = 0u64;
    let mut previous = 0i64;
    let mut pending: Option<(u64, u64, i64)> = None;
    for batch in batches {
        let run = runs.iter().rposition(|run| **run == batch.run).unwrap_or_else(|| {
            runs.push(&batch.run);
            runs.len() - 1
        }) as u64;
        match &mut pending {
            // Batches of the same run and moment read the same as one.
            Some((count, same_run, at)) if *same_run == run && *at == batch.at.0 => *count += batch.count(),
            _ => {
                entries += flush(&mut index, &mut previous, pending.take());
                pending = Some((batch.count(), run, batch.at.0));
            }
        }
    }
    entries += flush(&mut index, &mut previous, pending);

    let raw: usize = batches.iter().map(|batch| batch.body.len() + 1).sum();
    let mut plain = Vec::with_capacity(raw + index.len() + 64);
    put(&mut plain, runs.len() as u64);
    for run in runs {
        put(&mut plain, run.as_str().len() as u64);
        plain.extend_from_slice(run.as_str().as_bytes());
    }
    put(&mut plain, entries);
    plain.extend_from_slice(&index);
    for (number, batch) in batches.iter().enumerate() {
        if number > 0 {
            plain.push(b'\n');
        }
        plain.extend_from_slice(&batch.body);
    }
    let body = zstd::bulk::compress(&plain, LEVEL).map_err(|error| StoreError::Corrupt(format!("zstd: {error}")))?;
    Ok(Some(Segment {
        first_seq: first.first_seq,
        last_seq: last.last_seq,
        at: first.at,
        body,
        rows: batches.len(),
        raw,
    }))
}

fn flush(index: &mut Vec<u8>, previous: &mut i64, entry: Option<(u64, u64, i64)>) -> u64 {
    let Some((count, run, at)) = entry else { return 0 };
    put(index, count);
    put(index, run);
    let delta = at.wrapping_sub(*previous);
    put(index, ((delta << 1) ^ (delta >> 63)) as u64);
    *previous = at;
    1
}

fn decode(row: &LogRow) -> Result<Vec<Arc<Batch>>, StoreError> {
    let broken = |what: &str| StoreError::Corrupt(format!("segment at seq {}: {what}", row.first_seq));
    // The index can outgrow the events only if these are tiny; twice the largest batch is beyond both.
    let plain = zstd::bulk::decompress(&row.body, 2 * MAX_BATCH_BYTES).map_err(|error| broken(&error.to_string()))?;
    let plain = Bytes::from(plain);
    let mut at = 0usize;
    let next = |at: &mut usize| take(&plain, at).ok_or_else(|| broken("index cut short"));

    let mut runs = Vec::new();
    for _ in 0..next(&mut at)? {
        let length = usize::try_from(next(&mut at)?).unwrap_or(usize::MAX);
        let text = plain.get(at..at.saturating_add(length)).ok_or_else(|| broken("run id cut short"))?;
        let text = std::str::from_utf8(text).map_err(|_| broken("run id is not text"))?;
        runs.push(RunId::new(text).map_err(|_| broken("bad run id"))?);
        at += length;
    }
    let mut index = Vec::new();
    for _ in 0..next(&mut at)? {
        index.push((next(&mut at)?, next(&mut at)?, next(&mut at)?));
    }

    let events = plain.slice(at..);
    let mut breaks = memchr_iter(b'\n', &events);
    let mut batches = Vec::with_capacity(index.len());
    let (mut seq, mut start, mut moment) = (row.first_seq, 0usize, 0i64);
    for (count, run, delta) in index {
        moment = moment.wrapping_add(((delta >> 1) as i64) ^ -((delta & 1) as i64));
        let end = match usize::try_from(count) {
            Ok(0) | Err(_) => return Err(broken("empty batch")),
            Ok(count) => breaks.nth(count - 1).unwrap_or(events.len()),
        };
        let run = runs.get(run as usize).ok_or_else(|| broken("unknown run"))?.clone();
        let last = seq + count - 1;
        let body = events.slice(start.min(end)..end);
        batches.push(Arc::new(Batch::new(seq, last, run, Timestamp(moment), body)));
        (seq, start) = (last + 1, end + 1);
    }
    if seq != row.last_seq + 1 {
        return Err(broken("index does not fit the seqs"));
    }
    Ok(batches)
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Joins the bodies of consecutive batches, for a comparison with the events that a producer sends again.
pub fn join_bodies(batches: &[Arc<Batch>]) -> Bytes {
    if let [only] = batches {
        return only.body.clone();
    }
    let mut joined = BytesMut::with_capacity(batches.iter().map(|batch| batch.body.len() + 1).sum());
    for (number, batch) in batches.iter().enumerate() {
        if number > 0 {
            joined.extend_from_slice(b"\n");
        }
        joined.extend_from_slice(&batch.body);
    }
    joined.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(spec: &[(u64, &str, i64)]) -> Vec<Arc<Batch>> {
        let mut seq = 1;
        spec.iter()
            .map(|(count, run, at)| {
                let lines: Vec<String> = (seq..seq + count)
                    .map(|n| format!("{{\"type\":\"X\",\"n\":{n},\"pad\":\"{}\"}}", "é".repeat(20)))
                    .collect();
                let run = RunId::new(run).expect("id");
                let batch = Batch::new(seq, seq + count - 1, run, Timestamp(*at), Bytes::from(lines.join("\n")));
                seq += count;
                Arc::new(batch)
            })
            .collect()
    }

    fn flat(batches: &[Arc<Batch>]) -> Vec<(Seq, String, i64, Vec<u8>)> {
        batches
            .iter()
            .flat_map(|batch| {
                batch.events().map(|(seq, event)| (seq, batch.run.to_string(), batch.at.0, event.to_vec()))
            })
            .collect()
    }

    #[test]
    fn a_segment_reads_as_its_batches_did() {
        let before = batches(&[(3, "a", 10), (1, "a", 10), (2, "b", 7), (300, "a", 1_795_000_000_000)]);
        let segment = encode(&before).expect("encodes").expect("not empty");
        assert_eq!((segment.first_seq, segment.last_seq, segment.rows), (1, 306, 4));
        let row = LogRow { first_seq: 1, last_seq: 306, at: segment.at, run: None, body: segment.body.into() };
        assert_eq!(flat(&row.unpack().expect("decodes")), flat(&before));
    }

    #[test]
    fn a_damaged_segment_is_an_error_and_no_panic() {
        let segment = encode(&batches(&[(300, "a", 1)])).expect("encodes").expect("not empty");
        let row =
            |body: Vec<u8>, last_seq| LogRow { first_seq: 1, last_seq, at: Timestamp(0), run: None, body: body.into() };
        assert!(row(segment.body.clone(), 300).unpack().is_ok());
        assert!(row(segment.body.clone(), 299).unpack().is_err());
        assert!(row(segment.body[..segment.body.len() / 2].to_vec(), 300).unpack().is_err());
        for junk in [&b""[..], b"\x01", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x00\x01\x05\x00\x00"] {
            assert!(row(zstd::bulk::compress(junk, 1).expect("packs"), 300).unpack().is_err());
        }
    }

    #[test]
    fn groups_are_large_enough_and_never_too_large() {
        assert!(plan(&batches(&[(255, "a", 1)])).is_empty());
        assert_eq!(plan(&batches(&[(255, "a", 1), (1, "b", 2)])), vec![0..2]);
        let many = batches(&vec![(32, "a", 1); 400]);
        let groups = plan(&many);
        assert_eq!(groups.first().map(|group| group.start), Some(0));
        for (group, next) in groups.iter().zip(groups.iter().skip(1)) {
            assert_eq!(group.end, next.start);
        }
        for group in groups {
            let bytes: usize = many[group.clone()].iter().map(|batch| batch.body.len() + 1).sum();
            assert!(bytes <= SEGMENT_MAX_BYTES, "{bytes}");
        }
    }
}

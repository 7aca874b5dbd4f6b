//! Rows of a log that become segments, by sealing and by packing. A segment of few events is *open*: a later step takes it
//! in as soon as what follows weighs at least half as much. So open segments come last, each more than twice as heavy as
//! what follows, and an event is written again O(log n) times.

use std::{ops::Range, sync::Arc};

use threadline_core::{
    Batch, Seq,
    limits::{SEGMENT_MAX_BYTES, SEGMENT_MIN_EVENTS, SEGMENT_OPEN_BYTES, SEGMENT_TARGET_BYTES},
};

use crate::{
    StoreResult,
    segment::{self, LogRow, Segment},
};

/// A row of the log, unpacked.
pub(crate) struct Part {
    batches: Vec<Arc<Batch>>,
    is_segment: bool,
}

/// The change of one step.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) segments: Vec<Segment>,
    /// Seq up to which no later step has to look; `None` if nothing is decided.
    pub(crate) decided: Option<Seq>,
}

impl Part {
    pub(crate) fn of(row: LogRow) -> StoreResult<Self> {
        let is_segment = row.run.is_none();
        Ok(Self { batches: row.unpack()?, is_segment })
    }

    /// True if no later step takes this row in.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_segment && is_full(self.events(), self.bytes())
    }

    pub(crate) fn last_seq(&self) -> Seq {
        self.batches.last().map_or(0, |batch| batch.last_seq)
    }

    pub(crate) fn first_seq(&self) -> Seq {
        self.batches.first().map_or(0, |batch| batch.first_seq)
    }

    fn events(&self) -> u64 {
        self.batches.iter().map(|batch| batch.count()).sum()
    }

    /// Raw bytes of the events, with a line break for each batch.
    pub(crate) fn bytes(&self) -> usize {
        self.batches.iter().map(|batch| batch.body.len() + 1).sum()
    }
}

fn is_full(events: u64, bytes: usize) -> bool {
    events >= SEGMENT_MIN_EVENTS || bytes >= SEGMENT_OPEN_BYTES
}

/// A segment of consecutive batches, which replaces the rows that begin in it.
fn encode(parts: &[Part], batches: &[Arc<Batch>]) -> StoreResult<Option<Segment>> {
    let segment = segment::encode(batches)?;
    Ok(segment.map(|mut segment| {
        let range = segment.first_seq..=segment.last_seq;
        segment.rows = parts.iter().filter(|part| range.contains(&part.first_seq())).count();
        segment
    }))
}

/// Full segments alone. An open segment, which has too few events to be cut, is in one of them as a whole or stays.
pub(crate) fn seal(parts: &[Part]) -> StoreResult<Plan> {
    let batches: Vec<_> = parts.iter().flat_map(|part| part.batches.iter().cloned()).collect();
    let groups = segment::plan(&batches).into_iter().map(|group| encode(parts, &batches[group]));
    let segments: Vec<_> = groups.collect::<StoreResult<Vec<_>>>()?.into_iter().flatten().collect();
    let decided = segments.last().map(|segment| segment.last_seq);
    Ok(Plan { segments, decided })
}

/// Segments of everything. `more` is true if rows follow that the caller has not read.
pub(crate) fn pack(parts: &[Part], more: bool) -> StoreResult<Plan> {
    let (mut groups, rest) = cut(parts);
    let (events, bytes) = weight(&parts[rest.clone()]);
    let mut decided = parts.last().map(Part::last_seq);
    if !rest.is_empty() {
        // A window of many small rows is a group as well.
        if is_full(events, bytes) && (!more || groups.is_empty()) {
            groups.push(rest);
        } else {
            decided = Some(parts[rest.start].first_seq() - 1);
            if !more {
                groups.extend(grown(parts, rest));
            }
        }
    }
    let mut segments = Vec::with_capacity(groups.len());
    for group in groups {
        let parts = &parts[group];
        let batches: Vec<_> = parts.iter().flat_map(|part| part.batches.iter().cloned()).collect();
        match (parts, encode(parts, &batches)?) {
            ([only], Some(segment)) if only.is_segment || segment.body.len() >= only.bytes() => {}
            (_, segment) => segments.extend(segment),
        }
    }
    Ok(Plan { segments, decided })
}

/// Groups that are cut because they are large enough or the next row is too large, and the rest.
fn cut(parts: &[Part]) -> (Vec<Range<usize>>, Range<usize>) {
    let (mut groups, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (index, part) in parts.iter().enumerate() {
        let size = part.bytes();
        if bytes > 0 && bytes + size > SEGMENT_MAX_BYTES {
            groups.push(start..index);
            (start, bytes) = (index, 0);
        }
        bytes += size;
        if size > SEGMENT_MAX_BYTES {
            // A row this large stays as it is.
            (start, bytes) = (index + 1, 0);
        } else if bytes >= SEGMENT_TARGET_BYTES {
            groups.push(start..index + 1);
            (start, bytes) = (index + 1, 0);
        }
    }
    (groups, start..parts.len())
}

/// Parts of a rest that become one open segment: the rows that are in no segment yet, and the open segments before
/// them, as long as each weighs at most twice as much as what follows it.
fn grown(parts: &[Part], rest: Range<usize>) -> Option<Range<usize>> {
    let mut start = rest.start + parts[rest.clone()].iter().position(|part| !part.is_segment)?;
    let (_, mut bytes) = weight(&parts[start..rest.end]);
    while start > rest.start && parts[start - 1].bytes() <= 2 * bytes {
        start -= 1;
        bytes += parts[start].bytes();
    }
    Some(start..rest.end)
}

fn weight(parts: &[Part]) -> (u64, usize) {
    parts.iter().fold((0, 0), |(events, bytes), part| (events + part.events(), bytes + part.bytes()))
}

#[cfg(test)]
mod tests {
    use threadline_core::{RunId, Timestamp};

    use super::*;

    fn row(seq: Seq, count: u64, size: usize) -> LogRow {
        let lines: Vec<String> =
            (0..count).map(|n| format!("{{\"n\":{n},\"pad\":\"{}\"}}", "x".repeat(size))).collect();
        let run = Some(RunId::new("r").expect("id"));
        LogRow { first_seq: seq, last_seq: seq + count - 1, at: Timestamp(0), run, body: lines.join("\n").into() }
    }

    /// Packs a log after every row; returns the rows at the end, and the events in all segments on the way.
    fn packed(sizes: &[u64]) -> (Vec<LogRow>, u64) {
        let (mut log, mut decided, mut next, mut written) = (Vec::<LogRow>::new(), 0, 1, 0);
        for count in sizes {
            log.push(row(next, *count, 150));
            next += count;
            let undecided = log.iter().filter(|row| row.first_seq > decided).cloned();
            let parts: Vec<_> = undecided.map(|row| Part::of(row).expect("unpacks")).collect();
            let plan = pack(&parts, false).expect("plans");
            for segment in plan.segments {
                log.retain(|row| row.first_seq < segment.first_seq || row.last_seq > segment.last_seq);
                let (first_seq, last_seq, at) = (segment.first_seq, segment.last_seq, segment.at);
                written += last_seq + 1 - first_seq;
                log.push(LogRow { first_seq, last_seq, at, run: None, body: segment.body.into() });
            }
            decided = plan.decided.expect("decides");
            let mut seq = 1;
            for row in &log {
                assert_eq!(row.first_seq, seq, "dense");
                seq = row.last_seq + 1;
            }
        }
        (log, written)
    }

    #[test]
    fn an_event_is_packed_again_a_few_times_only() {
        let sizes = vec![1; 2_000];
        let (log, written) = packed(&sizes);
        // Up to log2 of 256 times until its segment is full.
        assert!(written <= 2_000 * 9, "{written}");
        assert!(written > 2_000 && log.len() < 2_000 / 256 + 10, "{written} in {} rows", log.len());
        let (log, written) = packed(&[20, 20, 20, 20]);
        assert!(written <= 20 * 4 * 3 && log.len() <= 3, "{written} in {} rows", log.len());
    }

    #[test]
    fn what_is_new_waits_for_half_the_weight_of_an_open_segment() {
        let lengths = |log: &[LogRow]| log.iter().map(|row| row.last_seq + 1 - row.first_seq).collect::<Vec<_>>();
        assert_eq!(lengths(&packed(&[100, 20]).0), [100, 20]);
        assert_eq!(lengths(&packed(&[100, 60]).0), [160]);
        assert_eq!(lengths(&packed(&[100, 31, 21]).0), [152], "two small ones together are heavy enough");
        assert_eq!(lengths(&packed(&[200, 10, 90]).0), [300], "a full segment takes in what is open");
        assert_eq!(lengths(&packed(&[300, 10]).0), [300, 10], "a full one is closed");
    }

    #[test]
    fn large_rows_stay_and_windows_are_cut() {
        let parts = |rows: Vec<LogRow>| rows.into_iter().map(|row| Part::of(row).expect("unpacks")).collect::<Vec<_>>();
        let rows = parts(vec![row(1, 5, 10), row(6, 1, SEGMENT_MAX_BYTES), row(7, 5, 10)]);
        let plan = pack(&rows, false).expect("plans");
        let ranges = plan.segments.iter().map(|segment| (segment.first_seq, segment.last_seq, segment.rows));
        assert_eq!((ranges.collect::<Vec<_>>(), plan.decided), (vec![(1, 5, 1), (7, 11, 1)], Some(6)));
        // The caller has read a window: the rest of it is left for the next one.
        let many: Vec<_> = (0..2_000).map(|n| row(n + 1, 1, 1_000)).collect();
        let plan = pack(&parts(many), true).expect("plans");
        let last = plan.segments.last().expect("a segment").last_seq;
        assert!(plan.segments.len() > 5 && plan.decided == Some(last) && last < 2_000, "{last}");
        let small: Vec<_> = (0..256).map(|n| row(n + 1, 1, 10)).collect();
        let plan = pack(&parts(small), true).expect("plans");
        assert_eq!((plan.segments.len(), plan.decided), (1, Some(256)));
    }
}

//! The table of checkpoints.

use std::collections::BTreeMap;

use threadline_core::{
    Timestamp,
    checkpoints::{
        Blob, ChannelAt, CheckpointId, CheckpointNs, FoundWrite, StoredCheckpoint, TaskId, TaskWrite, TaskWrites,
        WhichCheckpoints,
    },
};

/// Place of a checkpoint.
pub(super) type Place = (CheckpointNs, CheckpointId);

/// Checkpoints of a thread, with their parts.
#[derive(Debug, Clone, Default)]
pub(super) struct Checkpoints {
    pub(super) all: BTreeMap<Place, StoredCheckpoint>,
    pub(super) blobs: BTreeMap<(CheckpointNs, ChannelAt), Blob>,
    /// Loose blobs, each with the time since which it has been loose, or was stored again.
    pub(super) loose: BTreeMap<(CheckpointNs, ChannelAt), Timestamp>,
    /// Writes, each with the rest of its task.
    pub(super) writes: BTreeMap<(Place, TaskId, i64), TaskWrites>,
}

/// The write of a row of the table.
pub(super) fn the_write(row: &TaskWrites) -> &TaskWrite {
    // A row has exactly one.
    &row.writes[0]
}

pub(super) fn found(row: &TaskWrites) -> FoundWrite {
    let TaskWrite { idx, channel, data } = the_write(row).clone();
    let (task, path) = (row.task.clone(), row.path.clone());
    FoundWrite { task, path, idx, channel, kind: data.kind, body: Some(data.body) }
}

impl Checkpoints {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.blobs.is_empty() && self.writes.is_empty()
    }

    /// Bytes that count as stored data.
    pub(super) fn bytes(&self) -> i64 {
        let all: i64 = self.all.values().map(|stored| stored.checkpoint.size()).sum();
        let blobs: i64 = self.blobs.iter().map(|((ns, _), blob)| blob.size(ns)).sum();
        let writes = self.writes.iter().map(|(((ns, id), ..), row)| row.size(ns, id, the_write(row)));
        all + blobs + writes.sum::<i64>()
    }

    /// Removes the loose blobs of one namespace that are as old as `before`, unless a checkpoint names them; returns their bytes.
    pub(super) fn sweep(&mut self, before: Timestamp) -> Option<i64> {
        let ns = self.loose.iter().find(|(_, at)| **at <= before).map(|((ns, _), _)| ns.clone())?;
        let old: Vec<_> = self.loose.extract_if(.., |(of, _), at| *of == ns && *at <= before).collect();
        let bytes = self.bytes();
        for (place, _) in old {
            let named =
                |stored: &StoredCheckpoint| stored.checkpoint.ns == ns && stored.checkpoint.channels.contains(&place.1);
            if !self.all.values().any(named) {
                self.blobs.remove(&place);
            }
        }
        Some(bytes - self.bytes())
    }

    /// Removes up to `limit` checkpoints with what belongs to them alone; returns their number.
    pub(super) fn delete(&mut self, which: &WhichCheckpoints, limit: usize) -> usize {
        let in_ns = |ns: &CheckpointNs| which.ns.as_ref().is_none_or(|wanted| wanted == ns);
        let wanted = |(ns, id): &Place| in_ns(ns) && which.ids.as_ref().is_none_or(|ids| ids.contains(id));
        let doomed: Vec<Place> = self.all.keys().filter(|place| wanted(place)).take(limit).cloned().collect();
        let mut dropped: Vec<(CheckpointNs, ChannelAt)> = Vec::new();
        for place in &doomed {
            let gone = self.all.remove(place);
            dropped.extend(gone.into_iter().flat_map(|gone| gone.checkpoint.channels).map(|at| (place.0.clone(), at)));
        }
        let all = &self.all;
        self.writes.retain(|(place, ..), _| !wanted(place) || all.contains_key(place));
        let named = |(ns, at): &(CheckpointNs, ChannelAt)| {
            all.iter().any(|((other, _), stored)| other == ns && stored.checkpoint.channels.contains(at))
        };
        let is_dropped = |place: &(CheckpointNs, ChannelAt)| match which.ids {
            Some(_) => dropped.contains(place),
            None => in_ns(&place.0),
        };
        self.blobs.retain(|place, _| !is_dropped(place) || named(place));
        doomed.len()
    }
}

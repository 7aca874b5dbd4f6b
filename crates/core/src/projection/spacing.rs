//! Spacing of snapshots: the newest is kept, and older ones the farther apart the older they are.

use crate::seq::Seq;

/// Snapshots that are superfluous once there is one at `newest`. Of the snapshots between 2^k and 2^(k+1) events back,
/// the oldest is kept: so a thread of n events keeps about log2(n), and reading at any seq folds no more events than
/// lie between that seq and the end of the log, and usually far fewer.
pub fn superfluous(seqs: impl IntoIterator<Item = Seq>, newest: Seq) -> Vec<Seq> {
    let mut older: Vec<Seq> = seqs.into_iter().filter(|seq| *seq < newest).collect();
    older.sort_unstable();
    let mut class = None;
    older.retain(|seq| class.replace((newest - seq).ilog2()) == Some((newest - seq).ilog2()));
    older
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_kept_and_none_is_far() {
        let mut kept: Vec<Seq> = Vec::new();
        for newest in (0..2_000).map(|step| step * 517 + step % 7).skip(1) {
            let dropped = superfluous(kept.iter().copied(), newest);
            kept.retain(|seq| !dropped.contains(seq));
            kept.push(newest);
            assert!(kept.len() <= 2 + newest.ilog2() as usize, "{} at {newest}", kept.len());
            for at in (0..newest).step_by(1 + newest as usize / 50) {
                let before = kept.iter().rev().find(|seq| **seq <= at).copied().unwrap_or(0);
                assert!(at - before <= 3 * (newest - at) + 600, "{at} is read from {before}, of {newest}");
            }
        }
    }

    #[test]
    fn snapshots_that_are_not_older_are_kept() {
        assert_eq!(superfluous([10, 11, 12], 10), [0; 0]);
        assert_eq!(superfluous([], 5), [0; 0]);
    }
}

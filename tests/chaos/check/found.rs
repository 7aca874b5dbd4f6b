//! What was found, and how it reads.

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
};

use crate::history::{Class, Kind};

/// Broken promises that are printed in full.
const PRINTED: usize = 40;

#[derive(Debug, Default)]
pub struct Found {
    pub faults: BTreeMap<Kind, u64>,
    /// Milliseconds from a fault to the answer of a request that it hit.
    pub recoveries: BTreeMap<Kind, Vec<u64>>,
    pub threads: u64,
    pub events: u64,
    pub acknowledged: u64,
    /// Batches without any clear answer: whole in the log, not in it, cut (streamed ones may be).
    pub present: u64,
    pub absent: u64,
    pub torn: u64,
    pub refused: u64,
    /// Starts that were refused because another run was active.
    pub conflicts: u64,
    pub started: u64,
    pub ended: u64,
    pub abandoned: u64,
    /// Milliseconds from the end of a lease to the end of its run.
    pub reaped: Vec<u64>,
    pub readers: u64,
    pub joins: u64,
    pub deliveries: u64,
    /// Runs whose agent was called, those that it was called for again, and effects that it carried out.
    pub called: u64,
    pub again: u64,
    pub effects: u64,
    /// Turns that were accepted, those that have begun, and pairs of turns whose order was compared.
    pub queued: u64,
    pub begun: u64,
    pub pairs: u64,
    /// Answers of nodes that they are ready.
    pub probes: u64,
    /// Acknowledged events that a failover has lost, in its window, and refusals that told producers so.
    pub voided: u64,
    pub healed: u64,
    /// Readers that were told that events of theirs are lost, and that only the epoch is another one.
    pub replaced: u64,
    pub rebased: u64,
    samples: Vec<(u64, u64)>,
    wrong: BTreeMap<Class, (u64, Vec<String>)>,
}

impl Found {
    /// A promise is broken, `count` times over.
    pub fn wrong(&mut self, class: Class, count: u64, what: String) {
        let (sum, printed) = self.wrong.entry(class).or_default();
        *sum += count.max(1);
        if printed.len() < PRINTED {
            printed.push(what);
        }
    }

    pub fn sample(&mut self, runs: u64, readers: u64) {
        self.samples.push((runs, readers));
    }

    pub fn count(&self, class: Class) -> u64 {
        self.wrong.get(&class).map_or(0, |(sum, _)| *sum)
    }

    pub fn is_clean(&self) -> bool {
        self.wrong.is_empty()
    }

    pub fn all_faults(&self) -> u64 {
        self.faults.values().sum()
    }

    /// The last line of a run.
    pub fn last_line(&self) -> String {
        let slowest = self.recoveries.values().flatten().max().copied().unwrap_or(0);
        format!(
            "faults {}, acknowledged {}, lost {}, duplicated {}, interleaved {}, unfinished {}, in loss windows {}, \
             slowest recovery {slowest} ms",
            self.all_faults(),
            self.acknowledged,
            self.count(Class::Lost),
            self.count(Class::Duplicated),
            self.count(Class::Interleaved),
            self.count(Class::Unfinished),
            self.voided,
        )
    }
}

/// p50, p99 and the greatest of some times.
struct Spread(Vec<u64>);

impl Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut times = self.0.clone();
        times.sort_unstable();
        let Some(greatest) = times.last() else { return f.write_str("none") };
        let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
        write!(f, "p50 {} ms, p99 {} ms, max {greatest} ms ({})", at(50), at(99), times.len())
    }
}

impl Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "faults, and the time from each to the answers of the requests that it hit:")?;
        for (kind, count) in &self.faults {
            let took = Spread(self.recoveries.get(kind).cloned().unwrap_or_default());
            writeln!(f, "  {count:>4} {:<14} {took}", kind.name())?;
        }
        let under_way = |pick: fn(&(u64, u64)) -> u64| {
            let mut all: Vec<_> = self.samples.iter().map(pick).collect();
            all.sort_unstable();
            (all.first().copied().unwrap_or(0), all.get(all.len() / 2).copied().unwrap_or(0))
        };
        let ((fewest_runs, runs), (fewest_readers, readers)) =
            (under_way(|(runs, _)| *runs), under_way(|(_, readers)| *readers));
        writeln!(
            f,
            "at once: {runs} runs under way (never fewer than {fewest_runs}), {readers} readers connected (never fewer than \
             {fewest_readers})"
        )?;
        let unknown = self.present + self.absent + self.torn;
        writeln!(
            f,
            "appends: {} events acknowledged in {} threads with {} events; {unknown} batches without a clear answer ({} \
             there, {} not, {} streamed ones cut), {} refused",
            self.acknowledged, self.threads, self.events, self.present, self.absent, self.torn, self.refused
        )?;
        writeln!(
            f,
            "runs: {} starts acknowledged, {} refused because another run was active; {} ended by one terminal event, {} \
             abandoned without any; from the end of a lease to the end of its run: {}",
            self.started,
            self.conflicts,
            self.ended,
            self.abandoned,
            Spread(self.reaped.clone())
        )?;
        writeln!(
            f,
            "agents: called for {} runs, again for {} of them; {} effects",
            self.called, self.again, self.effects
        )?;
        writeln!(
            f,
            "queues: {} turns accepted, {} of them have begun, the others were removed; {} pairs in their order",
            self.queued, self.begun, self.pairs
        )?;
        writeln!(
            f,
            "readers: {}, accepted {} times, {} events compared byte for byte",
            self.readers, self.joins, self.deliveries
        )?;
        if self.faults.contains_key(&Kind::PromoteStandby) {
            writeln!(
                f,
                "failovers: {} events that were acknowledged while the standby lagged are lost, none else; producers were \
                 told {} times that their runs lack events, readers {} times that they saw lost ones, and {} times of \
                 another epoch alone",
                self.voided, self.healed, self.replaced, self.rebased
            )?;
        }
        if let Some(faults) = Some(self.all_faults()).filter(|faults| *faults > 0 && self.is_clean()) {
            let bound = 300.0 / faults as f64;
            writeln!(
                f,
                "with no failure in {faults} faults, fewer than {bound:.1} % of such faults do harm (95 % bound, 3/n)"
            )?;
        }
        for (class, (sum, printed)) in &self.wrong {
            writeln!(f, "{class:?}: {sum}")?;
            for what in printed {
                writeln!(f, "  {what}")?;
            }
        }
        Ok(())
    }
}

//! The rows of a family's threads, and the statements that change them.

use super::Design::{self, *};

pub const THREADS: usize = 4;
/// Events of a segment.
const FULL: u8 = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Life {
    #[default]
    None,
    Live,
    Trash,
    /// It waits for its purge.
    Deleted,
    /// Purged, but for what its children read.
    Kept,
    Gone,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Thread {
    pub life: Life,
    pub tail: u8,
    pub base: u8,
    pub sealed: u8,
    /// Each owner from which it reads, and up to which seq, in their order.
    pub forks: Vec<(usize, u8)>,
}

/// The event at an index has the seq `first` + index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    owner: usize,
    pub first: u8,
    events: Vec<u8>,
}

impl Row {
    pub fn last(&self) -> u8 {
        self.first + self.events.len() as u8 - 1
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Snapshot {
    owner: usize,
    events: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Forking {
    pub parent: usize,
    pub base: u8,
    forks: Vec<(usize, u8)>,
    pub shared: Vec<u8>,
}

/// Seqs up to `keep` are read by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Purging {
    pub thread: usize,
    keep: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Store {
    pub threads: [Thread; THREADS],
    rows: Vec<Row>,
    snapshots: Vec<Snapshot>,
}

impl Store {
    pub fn new(events: &[u8]) -> Self {
        let mut store = Store::default();
        store.threads[0].life = Life::Live;
        events.iter().for_each(|event| store.append(0, *event));
        store
    }

    pub fn append(&mut self, thread: usize, event: u8) {
        self.threads[thread].tail += 1;
        let first = self.threads[thread].tail;
        self.put(Row { owner: thread, first, events: vec![event] });
    }

    /// Rows that are enough for a segment become one.
    pub fn seal(&mut self, design: Design, thread: usize) -> Option<()> {
        let Thread { tail, base, sealed, .. } = self.threads[thread];
        let from = if design == SealMovesUnderBase { sealed } else { sealed.max(base) };
        (tail >= from + FULL).then_some(())?;
        let within = |row: &Row| row.owner == thread && row.first > from && row.last() <= from + FULL;
        let events: Vec<u8> = self.rows.iter().filter(|row| within(row)).flat_map(|row| row.events.clone()).collect();
        self.rows.retain(|row| !within(row));
        self.threads[thread].sealed = from + FULL;
        if !events.is_empty() {
            self.put(Row { owner: thread, first: from + 1, events });
        }
        Some(())
    }

    /// One for each thread is enough.
    pub fn snapshot(&mut self, thread: usize, truth: &[u8]) -> Option<()> {
        let known = |snapshot: &Snapshot| snapshot.owner == thread && snapshot.events.len() == truth.len();
        (!truth.is_empty() && !self.snapshots.iter().any(known)).then_some(())?;
        self.snapshots.push(Snapshot { owner: thread, events: truth.to_vec() });
        self.snapshots.sort_by_key(|snapshot| (snapshot.owner, snapshot.events.len()));
        Some(())
    }

    pub fn fork(&self, design: Design, parent: usize, base: u8, shared: Vec<u8>) -> Option<Forking> {
        let mut forks = Vec::new();
        let ancestry = if design == AncestryOfParentOnly { &[] } else { self.threads[parent].forks.as_slice() };
        let mut from = 0;
        for (owner, upto) in ancestry.iter().copied().filter(|_| base > 0) {
            if from < base {
                forks.push((owner, if design == AncestryUncut { upto } else { upto.min(base) }));
                from = upto;
            }
        }
        if from < base {
            forks.push((parent, base));
        }
        Some(Forking { parent, base, forks, shared })
    }

    pub fn forked(&mut self, forking: &Forking) -> usize {
        let child = self.threads.iter().position(|thread| thread.life == Life::None).expect("room");
        let (base, forks) = (forking.base, forking.forks.clone());
        self.threads[child] = Thread { life: Life::Live, tail: base, base, sealed: 0, forks };
        child
    }

    /// Reads which rows of a deleted thread others need.
    pub fn purge(&self, design: Design, thread: usize) -> Purging {
        let reads = |other: &&Thread| match other.life {
            Life::None | Life::Gone => design == LooseEnds,
            Life::Trash => design != TrashIsDeleted,
            _ => design != PurgeIgnoresForks,
        };
        let upto =
            |other: &Thread| other.forks.iter().filter(|(owner, _)| *owner == thread).map(|(_, upto)| *upto).max();
        Purging { thread, keep: self.threads.iter().filter(reads).filter_map(upto).max().unwrap_or(0) }
    }

    pub fn purged(&mut self, design: Design, Purging { thread, keep }: Purging) {
        for row in self.rows.iter_mut().filter(|row| row.owner == thread && row.last() > keep) {
            if design != PurgeKeepsRows || row.first > keep {
                row.events.truncate(usize::from((keep + 1).saturating_sub(row.first)));
            }
        }
        self.rows.retain(|row| !row.events.is_empty());
        let stays = |snapshot: &Snapshot| snapshot.owner != thread || keep > 0 && design == PurgeLeavesSnapshots;
        let shared = |snapshot: &Snapshot| snapshot.events.len() <= usize::from(keep);
        self.snapshots.retain(|snapshot| stays(snapshot) || shared(snapshot));
        if keep > 0 {
            self.threads[thread].life = Life::Kept;
            return;
        }
        // The last step: those that were kept for it look again.
        let forks = if design == LooseEnds { Vec::new() } else { std::mem::take(&mut self.threads[thread].forks) };
        for (owner, _) in forks.iter().filter(|_| design != OwnersSleep) {
            if self.threads[*owner].life == Life::Kept {
                self.threads[*owner].life = Life::Deleted;
            }
        }
        let ancestry = std::mem::take(&mut self.threads[thread].forks);
        self.threads[thread] = Thread { life: Life::Gone, forks: ancestry, ..Thread::default() };
    }

    /// Also from the trash, since a thread may come back.
    pub fn is_readable(&self, thread: usize) -> bool {
        matches!(self.threads[thread].life, Life::Live | Life::Trash)
    }

    /// All events of a thread, a page at a time; `None` if there is a gap.
    pub fn read(&self, design: Design, thread: usize) -> Option<Vec<u8>> {
        let mut events = Vec::new();
        self.read_on(design, thread, &mut events)?;
        Some(events)
    }

    /// The fold of a thread is the list of its events, here.
    pub fn fold(&self, design: Design, thread: usize) -> Option<Vec<u8>> {
        let tail = usize::from(self.threads[thread].tail);
        let own = self.snapshots.iter().filter(|snapshot| snapshot.owner == thread);
        let upto = |snapshot: &Snapshot| {
            let fork = self.threads[thread].forks.iter().find(|(owner, _)| *owner == snapshot.owner);
            fork.map(|(_, upto)| usize::from(*upto))
        };
        let shared = |snapshot: &&Snapshot| {
            upto(snapshot).is_some_and(|upto| snapshot.events.len() <= upto || design == SnapshotBeyondBase)
        };
        let newest = own.chain(self.snapshots.iter().filter(shared)).max_by_key(|snapshot| snapshot.events.len());
        let mut events = newest.map_or(Vec::new(), |snapshot| snapshot.events.clone());
        if events.len() <= tail {
            self.read_on(design, thread, &mut events)?;
        }
        Some(events)
    }

    pub fn rows_of(&self, thread: usize) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.owner == thread)
    }

    /// Something that is neither read by a thread nor part of one that is.
    pub fn has_garbage(&self) -> bool {
        let readers = || (0..THREADS).filter(|thread| self.is_readable(*thread));
        let reads = |owner: usize, seq: u8| readers().any(|reader| self.owner(reader, seq).0 == owner);
        let dead = |owner: usize| !self.is_readable(owner);
        let row = |row: &Row| dead(row.owner) && (row.first..=row.last()).any(|seq| !reads(row.owner, seq));
        let snapshot = |snapshot: &Snapshot| {
            let used = |reader: usize| {
                let mut forks = self.threads[reader].forks.iter();
                forks.any(|(owner, upto)| *owner == snapshot.owner && snapshot.events.len() <= usize::from(*upto))
            };
            dead(snapshot.owner) && !readers().any(used)
        };
        let kept = |thread: usize| self.threads[thread].life == Life::Kept && self.rows_of(thread).next().is_none();
        let loose = |thread: &Thread| thread.life == Life::Gone && !thread.forks.is_empty();
        self.rows.iter().any(row)
            || self.snapshots.iter().any(snapshot)
            || (0..THREADS).any(kept)
            || self.threads.iter().any(loose)
    }

    // What follows are parts of statements.

    fn put(&mut self, row: Row) {
        self.rows.push(row);
        self.rows.sort_by_key(|row| (row.owner, row.first));
    }

    /// Whose row has a seq of a thread, and up to which seq that holds.
    fn owner(&self, thread: usize, seq: u8) -> (usize, u8) {
        let shared = self.threads[thread].forks.iter().copied().find(|(_, upto)| seq <= *upto);
        shared.unwrap_or((thread, self.threads[thread].tail))
    }

    fn read_on(&self, design: Design, thread: usize, events: &mut Vec<u8>) -> Option<()> {
        while events.len() < usize::from(self.threads[thread].tail) {
            let seq = events.len() as u8 + 1;
            let (owner, upto) = self.owner(thread, seq);
            let row = self.rows_of(owner).find(|row| row.first <= seq && seq <= row.last())?;
            let last = if design == PageUncut { row.last() } else { row.last().min(upto) };
            events.extend_from_slice(&row.events[usize::from(seq - row.first)..=usize::from(last - row.first)]);
        }
        Some(())
    }
}

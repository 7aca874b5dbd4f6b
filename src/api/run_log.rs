//! Log of a thread as the APIs of other protocols read it: run by run, without events that a later attempt has superseded.

use threadline_core::{Epoch, Principal, Run, Seq, ThreadId, Timestamp, limits::MAX_PAGE};
use threadline_engine::limits::QueuedWork;
use threadline_http::problem::Problem;

use super::{ApiState, superseded::Superseded};

/// Log that is read: its thread and epoch.
#[derive(Clone, Copy)]
pub struct Log<'a> {
    pub state: &'a ApiState,
    pub principal: &'a Principal,
    pub thread: &'a ThreadId,
    pub epoch: Epoch,
}

impl Log<'_> {
    /// Newest runs of the thread, newest first; and true if there are older ones.
    pub async fn runs(&self, most: usize) -> Result<(Vec<Run>, bool), Problem> {
        let (mut runs, mut before) = (Vec::new(), None);
        loop {
            let page = self.state.service.runs.list(self.principal, self.thread, before, MAX_PAGE, None).await?;
            runs.extend(page.items);
            match page.next {
                Some(next) if runs.len() < most => before = Some(next),
                next => {
                    let more = next.is_some() || runs.len() > most;
                    runs.truncate(most);
                    return Ok((runs, more));
                }
            }
        }
    }

    /// Begins to read events, in slices of the queue. Pass the work on to the functions below: work that waits for other work of the
    /// same client might wait for ever.
    pub async fn begin(&self) -> Result<QueuedWork, Problem> {
        Ok(self.state.service.queue.begin(self.principal).await?)
    }

    /// Passes the events of runs, oldest first, to `take`, without those that a later attempt has superseded. With the first event of
    /// a run, `take` gets true.
    pub async fn read_all(
        &self,
        work: &mut QueuedWork,
        runs: &[Run],
        mut take: impl FnMut(&Run, bool, &[u8]) + Send,
    ) -> Result<(), Problem> {
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return Ok(()) };
        let superseded = self.superseded_of(work, runs).await?;
        let mut runs = runs.iter().peekable();
        let take = |seq: Seq, event: &[u8], _: Timestamp| {
            while runs.next_if(|run| run.last_seq() < seq).is_some() {}
            let Some(run) = runs.peek().filter(|run| run.first_seq <= seq) else { return };
            if !superseded.has(seq, event) {
                take(run, run.first_seq == seq, event);
            }
        };
        self.each(work, None, (first.first_seq - 1, last.last_seq()), take).await
    }

    /// Passes the events of a run to `take`, without those that a later attempt has superseded.
    pub async fn read(
        &self,
        work: &mut QueuedWork,
        run: &Run,
        mut take: impl FnMut(&[u8]) + Send,
    ) -> Result<(), Problem> {
        let superseded = self.superseded_in(work, run).await?;
        self.each(work, Some(run), (run.first_seq - 1, run.last_seq()), |seq, event, _| {
            if !superseded.has(seq, event) {
                take(event);
            }
        })
        .await
    }

    /// Events of a run that its later attempts have superseded.
    pub async fn superseded(&self, run: &Run) -> Result<Superseded, Problem> {
        if may_supersede(run) {
            self.superseded_in(&mut self.begin().await?, run).await
        } else {
            Ok(Superseded::default())
        }
    }

    /// Events of a run that its later attempts have superseded, within work that has begun.
    pub async fn superseded_in(&self, work: &mut QueuedWork, run: &Run) -> Result<Superseded, Problem> {
        let mut superseded = Superseded::default();
        if may_supersede(run) {
            let all = (run.first_seq - 1, run.last_seq());
            self.each(work, Some(run), all, |seq, event, _| superseded.scan(seq, event)).await?;
            superseded.keep_within(run.first_seq, run.last_seq());
        }
        Ok(superseded)
    }

    /// Events of runs that their later attempts have superseded, within work that has begun.
    pub async fn superseded_of(&self, work: &mut QueuedWork, runs: &[Run]) -> Result<Superseded, Problem> {
        let mut all = Superseded::default();
        for run in runs {
            all.join(self.superseded_in(work, run).await?);
        }
        Ok(all)
    }

    /// Passes the events after `cursor` up to `end` to `take`, each with the time of its commit: those of one run, or all.
    pub async fn each(
        &self,
        work: &mut QueuedWork,
        run: Option<&Run>,
        range: (Seq, Seq),
        mut take: impl FnMut(Seq, &[u8], Timestamp) + Send,
    ) -> Result<(), Problem> {
        let (of, run) = ((self.principal, self.thread, self.epoch), run.map(|run| &run.id));
        let events = &self.state.service.events;
        Ok(events.fold(work, of, run, range, |seq, event, batch| take(seq, event, batch.at)).await?)
    }
}

/// True if events of the run may be superseded: only the server's own driver names attempts.
fn may_supersede(run: &Run) -> bool {
    run.driven && run.attempt > 1
}

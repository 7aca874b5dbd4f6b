//! A run as one stream of lines: started, appended, kept alive and finished on behalf of its producer.

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use memchr::memrchr;
use serde_json::value::RawValue;
use threadline_core::{
    EventError, EventErrorKind, Principal, ThreadId,
    event::BatchBuilder,
    limits::{MAX_EVENT_BYTES, STREAM_IDLE_TIMEOUT, STREAM_STORE_TIMEOUT},
    lines,
};

use crate::{
    AppendError, StreamRunError,
    commit::receipt::check_producer_seq,
    limits::BudgetExceeded,
    runs::{
        Runs,
        close::CloseReason,
        run_handle::RunHandle,
        run_writer::{ReadEvents, Resent, RunWriter, Silence, SilentLease, WriteExit, WritePolicy},
        start::{StartRequest, StartedRun},
        writer::Writer,
    },
    usecases::validations::StreamValidation,
};

/// Result of a streamed run on this connection.
#[derive(Debug)]
pub struct StreamedRun {
    /// The run after the stream.
    pub run: StartedRun,
    /// True if the body was not read to its end: the answer may precede the end of the body.
    pub early: bool,
}

impl Runs {
    /// Starts a run and appends its events, one a line; blank lines are heartbeats. The end of the stream finishes the
    /// run. `producer_seq` belongs to the first line, for a producer that continues after a broken stream; lines that
    /// are already stored are skipped.
    ///
    /// The lease is renewed while bytes arrive: a producer that requested a lease and sends nothing for longer loses
    /// its run, even if its connection is open. Without a requested lease an open connection keeps the run for
    /// [`STREAM_IDLE_TIMEOUT`].
    ///
    /// A stop requested meanwhile ends the run at once. A broken stream (`Err`) leaves the run to its lease: the
    /// producer may reconnect with the same run id. An invalid line ends the run with RUN_ERROR; so does, with `validation`, a
    /// line that is not as AG-UI has it after the lines before.
    pub async fn stream<E>(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        start: StartRequest,
        producer_seq: u64,
        validation: Option<StreamValidation>,
        body: impl Stream<Item = Result<Bytes, E>>,
    ) -> Result<StreamedRun, StreamRunError> {
        check_producer_seq(producer_seq)?;
        if producer_seq > 1 {
            // Only an existing run can continue: a new one would hold the thread and lack its first events.
            let Some(id) = &start.run else {
                return Err(StreamRunError::InvalidRequest(
                    "producerSeq requires the runId of the run to continue".into(),
                ));
            };
            self.get(principal, thread, id).await?;
        }
        let lease = start.lease;
        let mut run = self.start(principal, thread, start).await?;
        let handle = RunHandle {
            runs: self.clone(),
            writer: Writer::FIRST,
            // Another user may give the same id to a thread while the body arrives.
            principal: run.named_by(principal),
            thread: thread.clone(),
            run: run.run.id.clone(),
        };
        let (found, _) = self.find(Writer::FIRST, &handle.principal, thread.into(), &handle.run).await?;
        let topic = self.deps.hub.join(found.key);
        let policy = WritePolicy {
            heartbeat: self.beat(lease),
            lease,
            silence: Some(Silence {
                timeout: STREAM_IDLE_TIMEOUT.max(lease.unwrap_or_default()),
                lease: if lease.is_none() { SilentLease::Renewed } else { SilentLease::Expires },
            }),
            store_timeout: STREAM_STORE_TIMEOUT,
            resent: Resent::Possible,
            leaving: self.deps.lifecycle.draining.clone(),
        };
        let writer = RunWriter::new(handle.clone(), topic, run.run.fence, producer_seq, policy);
        let early = match writer.drive(body, &mut Lines { validation, ..Lines::default() }).await {
            WriteExit::SourceEnded => {
                handle.end(&CloseReason::Finished { producer_seq: 0 }).await?;
                false
            }
            WriteExit::Terminal | WriteExit::Ended => true,
            WriteExit::Stopped => {
                handle.end(&CloseReason::Stopped).await?;
                true
            }
            WriteExit::InvalidEvent(error) => {
                let message = format!("The producer sent an invalid event: {error}");
                handle.end(&CloseReason::Failed { code: "invalid-event".into(), message }).await?;
                return Err(error.into());
            }
            WriteExit::SourceFailed(_) => return Err(broken("broke off")),
            WriteExit::Silent => return Err(broken("fell silent")),
            WriteExit::Leaving => return Err(StreamRunError::Draining),
            WriteExit::HistoryLost { expected } => return Err(AppendError::ProducerSeqGap { expected }.into()),
            WriteExit::Refused(error) => return Err(error.into()),
        };
        run.run = self.get(&handle.principal, thread, &handle.run).await?;
        Ok(StreamedRun { run, early })
    }
}

fn broken(how: &str) -> StreamRunError {
    StreamRunError::InvalidRequest(format!(
        "the body {how}; send the same runId again before its lease expires to continue the run"
    ))
}

/// Splits a stream of bytes into lines, each an event or blank.
#[derive(Default)]
struct Lines {
    /// Start of a line whose end has not arrived.
    buffer: BytesMut,
    validation: Option<StreamValidation>,
}

impl Lines {
    fn push(&mut self, line: &[u8], batch: &mut BatchBuilder) -> Result<(), EventError> {
        if let Some(validation) = &mut self.validation
            // A line that is no event is refused by the batch, which says why.
            && let Ok(event) = serde_json::from_slice::<&RawValue>(line)
            && event.get().starts_with('{')
        {
            let refused = |flaw| EventError { index: batch.count(), kind: EventErrorKind::NotAgUi(flaw) };
            validation.check(event.get()).map_err(refused)?;
        }
        batch.push_line(line)
    }
}

impl ReadEvents for Lines {
    fn chunk(&mut self, chunk: &[u8], batch: &mut BatchBuilder) -> Result<(), EventError> {
        let Some(end) = memrchr(b'\n', chunk) else {
            self.buffer.extend_from_slice(chunk);
            if self.buffer.len() > MAX_EVENT_BYTES {
                return Err(EventError { index: batch.count(), kind: EventErrorKind::EventTooLarge });
            }
            return Ok(());
        };
        self.buffer.extend_from_slice(&chunk[..end]);
        let whole = self.buffer.split();
        self.buffer.extend_from_slice(&chunk[end + 1..]);
        lines(&whole).try_for_each(|line| self.push(line, batch))
    }

    fn rest(&mut self, batch: &mut BatchBuilder) -> Result<(), EventError> {
        let rest = self.buffer.split();
        lines(&rest).try_for_each(|line| self.push(line, batch))
    }

    fn room(&mut self) -> Result<(), BudgetExceeded> {
        self.validation.as_mut().map_or(Ok(()), StreamValidation::room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_wherever_the_chunks_are() {
        let text = b"{\"type\":\"A\"}\n\n{\"type\":\"B\"}\r\n{\"type\":\"C\"}";
        for cut in 0..text.len() {
            let (mut lines, mut batch) = (Lines::default(), BatchBuilder::default());
            for chunk in [&text[..cut], &text[cut..]] {
                assert_eq!(lines.chunk(chunk, &mut batch), Ok(()));
            }
            assert_eq!(lines.rest(&mut batch), Ok(()));
            let events = batch.finish().expect("three events");
            assert_eq!(&events.body()[..], b"{\"type\":\"A\"}\n{\"type\":\"B\"}\n{\"type\":\"C\"}", "cut at {cut}");
        }
    }

    #[test]
    fn the_good_lines_before_a_bad_one_are_kept() {
        let (mut lines, mut batch) = (Lines::default(), BatchBuilder::default());
        let refused = lines.chunk(b"{\"type\":\"A\"}\nnonsense\n{\"type\":\"C\"}\n", &mut batch);
        assert_eq!(refused.map_err(|error| error.index), Err(1));
        assert_eq!(batch.count(), 1);
    }
}

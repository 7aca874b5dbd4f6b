//! Cursor of a reader over frames: which events are delivered, which are skipped, and at which frames the stream fails.
//!
//! A pure state machine that outlives connections: only the socket changes.
//!
//! ```text
//!   subscribe ──► (waiting for hello) ──hello──► (open) ──events: seq == cursor + 1──► deliver, cursor += 1
//!                       │                          │      seq <= cursor ────────────► skip
//!                 all else ignored                 │      seq >  cursor + 1 ────────► out of step: new connection
//!                                                  ├──rebased──► the cursor continues under another epoch
//!                                                  └──ended──► done
//! ```

use std::{collections::VecDeque, sync::Arc};

use serde_json::json;

use super::{
    ClientError, ClientFrame, EndReason, Ended, Events, Hello, Problem, Rebased, ServerFrame, TailItem, TailOptions,
};
use threadline_core::Seq;

/// Effect of a frame on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The frame requires no action.
    Nothing,
    /// The connection works: earlier failures are forgotten.
    Progress,
    /// The server has sent a heartbeat, which must be answered.
    Alive,
    /// The subscription has ended.
    Done,
}

#[derive(Debug)]
pub(super) struct Follow {
    thread: Arc<str>,
    run: Option<String>,
    cursor: Seq,
    epoch: Option<Arc<str>>,
    /// True once a hello has arrived on this connection.
    open: bool,
    /// True once the beginning of a subscription to one run is known: from there on its events are dense, too.
    placed: bool,
}

impl Follow {
    pub(super) fn new(thread: &str, options: TailOptions) -> Self {
        Self {
            thread: thread.into(),
            placed: options.run.is_none(),
            run: options.run,
            cursor: options.after,
            epoch: options.epoch.map(Arc::from),
            open: false,
        }
    }

    pub(super) fn cursor(&self) -> Seq {
        self.cursor
    }

    /// First frame of a new connection.
    pub(super) fn subscribe(&mut self) -> ClientFrame {
        self.open = false;
        ClientFrame::Subscribe {
            thread_id: self.thread.to_string(),
            after: self.cursor,
            epoch: self.epoch.as_deref().map(str::to_owned),
            run_id: self.run.clone(),
        }
    }

    /// Takes in a frame. The frame's items are put into `out`, also if the frame ends in an error.
    pub(super) fn frame(&mut self, frame: ServerFrame, out: &mut VecDeque<TailItem>) -> Result<Step, ClientError> {
        match frame {
            ServerFrame::Hello(hello) if *hello.thread_id == *self.thread => self.hello(hello, out),
            ServerFrame::Events(events) if self.open && events.thread_id == self.thread => self.events(events, out),
            ServerFrame::CaughtUp(position) if self.open && *position.thread_id == *self.thread => {
                self.reaches(position.seq)?;
                out.push_back(TailItem::CaughtUp(self.cursor));
                Ok(Step::Nothing)
            }
            ServerFrame::FellBehind(position) if self.open && *position.thread_id == *self.thread => {
                out.push_back(TailItem::FellBehind(self.cursor));
                Ok(Step::Nothing)
            }
            ServerFrame::Queue(frame) if self.open && *frame.thread_id == *self.thread => {
                out.push_back(TailItem::Queue(frame.state));
                Ok(Step::Nothing)
            }
            ServerFrame::Rebased(rebased) if self.open && *rebased.thread_id == *self.thread => {
                self.rebased(rebased, out)?;
                Ok(Step::Nothing)
            }
            ServerFrame::Ended(ended) if self.open && *ended.thread_id == *self.thread => {
                if ended.reason == EndReason::LogReplaced {
                    return Err(replaced(ended).into());
                }
                if ended.reason == EndReason::LogDamaged {
                    return Err(damaged(&ended).into());
                }
                if ended.reason == EndReason::RunEnded {
                    self.reaches(ended.seq.unwrap_or(0))?;
                }
                out.push_back(TailItem::Ended { reason: ended.reason });
                Ok(Step::Done)
            }
            ServerFrame::Error(problem) => Err(ClientError::Problem(problem)),
            ServerFrame::Heartbeat { .. } => Ok(Step::Alive),
            // Frames of other threads and of earlier subscriptions, and answers to requests that were not made here.
            _ => Ok(Step::Nothing),
        }
    }

    fn hello(&mut self, hello: Hello, out: &mut VecDeque<TailItem>) -> Result<Step, ClientError> {
        match &self.epoch {
            Some(epoch) if **epoch != *hello.epoch => {
                return Err(ClientError::Protocol(format!(
                    "the server serves the log {} to a cursor of the log {epoch}",
                    hello.epoch
                )));
            }
            _ => self.epoch = Some(hello.epoch.as_str().into()),
        }
        self.open = true;
        if !self.placed {
            // Events of other runs, up to the first of this one, are skipped.
            self.cursor = self.cursor.max(hello.after);
            self.placed = true;
        }
        out.push_back(TailItem::Hello { epoch: hello.epoch, tail: hello.tail });
        Ok(Step::Nothing)
    }

    fn rebased(&mut self, rebased: Rebased, out: &mut VecDeque<TailItem>) -> Result<(), ClientError> {
        let Rebased { from, epoch, after, .. } = rebased;
        if self.epoch.as_deref() != Some(from.as_str()) {
            return Err(ClientError::OutOfStep(format!(
                "the log {from} continues as {epoch}, and another is followed"
            )));
        }
        self.reaches(after)?;
        self.epoch = Some(epoch.as_str().into());
        out.push_back(TailItem::Rebased { from, epoch });
        Ok(())
    }

    fn events(&mut self, events: Events, out: &mut VecDeque<TailItem>) -> Result<Step, ClientError> {
        if self.epoch.as_ref() != Some(&events.epoch) {
            return Err(ClientError::OutOfStep(format!("events of another log ({}) arrived", events.epoch)));
        }
        let mut step = Step::Nothing;
        for batch in events.batches {
            for (seq, event) in (batch.seq..).zip(batch.events) {
                if seq <= self.cursor {
                    continue;
                }
                if seq != self.cursor + 1 {
                    return Err(ClientError::OutOfStep(format!("after seq {} came seq {seq}", self.cursor)));
                }
                self.cursor = seq;
                step = Step::Progress;
                let (run_id, at) = (batch.run_id.clone(), batch.at.clone());
                out.push_back(TailItem::Event { seq, run_id, at, event });
            }
        }
        Ok(step)
    }

    /// Checks the server's statement that every event up to `seq` was sent.
    fn reaches(&self, seq: Seq) -> Result<(), ClientError> {
        if seq > self.cursor {
            return Err(ClientError::OutOfStep(format!(
                "the server is at seq {seq}, but only {} arrived",
                self.cursor
            )));
        }
        Ok(())
    }
}

/// The same refusal as of a subscription with this cursor: its end and its refusal are handled alike.
fn replaced(Ended { epoch, tail, common_up_to, .. }: Ended) -> Problem {
    let facts = json!({
        "slug": "log-replaced", "title": "Log replaced", "retryable": false,
        "detail": "the server has lost events that were delivered", "epoch": epoch, "tail": tail,
        "commonUpTo": common_up_to,
    });
    Problem::from_members(facts.as_object().cloned().unwrap_or_default(), 410)
}

/// The same refusal as of a page of these events.
fn damaged(Ended { first_seq, last_seq, .. }: &Ended) -> Problem {
    let facts = json!({
        "slug": "log-damaged", "title": "Damaged log", "retryable": false,
        "detail": "the next events are damaged on the server", "firstSeq": first_seq, "lastSeq": last_seq,
    });
    Problem::from_members(facts.as_object().cloned().unwrap_or_default(), 500)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(after: Seq, run: Option<&str>) -> Follow {
        Follow::new("t", TailOptions { after, run: run.map(str::to_owned), ..TailOptions::default() })
    }

    /// Feeds frames; returns the delivered items as short words, and the result of the last frame.
    fn feed(follow: &mut Follow, frames: &[&str]) -> (Vec<String>, Result<Step, ClientError>) {
        let (mut out, mut last) = (VecDeque::new(), Ok(Step::Nothing));
        for text in frames {
            last = follow.frame(ServerFrame::parse(text).expect("a frame").1, &mut out);
        }
        let words = out.into_iter().map(|item| match item {
            TailItem::Hello { epoch, tail } => format!("hello {epoch} {tail}"),
            TailItem::Event { seq, .. } => seq.to_string(),
            TailItem::CaughtUp(seq) => format!("caught up {seq}"),
            TailItem::FellBehind(seq) => format!("fell behind {seq}"),
            TailItem::Queue(queue) => format!("queue {} {}", queue.version, queue.queued),
            TailItem::Rebased { from, epoch } => format!("rebased {from} {epoch}"),
            TailItem::Ended { reason } => reason.as_str().to_owned(),
            TailItem::Reconnecting { .. } => "reconnecting".to_owned(),
        });
        (words.collect(), last)
    }

    const HELLO: &str = r#"{"hello":{"threadId":"t","epoch":"e","tail":4,"after":0}}"#;

    fn events(thread: &str, epoch: &str, seq: Seq, count: usize) -> String {
        let list = vec![r#"{"type":"X"}"#; count].join(",");
        format!(
            r#"{{"events":{{"threadId":"{thread}","epoch":"{epoch}","batches":[{{"seq":{seq},"runId":"r","at":"-","events":[{list}]}}]}}}}"#
        )
    }

    #[test]
    fn each_event_once_and_in_order() {
        let mut reader = follow(0, None);
        let (words, last) = feed(
            &mut reader,
            &[
                HELLO,
                &events("t", "e", 1, 2),
                &events("t", "e", 2, 2),
                &events("other", "e", 9, 1),
                r#"{"caughtUp":{"threadId":"t","epoch":"e","seq":3}}"#,
            ],
        );
        assert_eq!(words, ["hello e 4", "1", "2", "3", "caught up 3"]);
        assert_eq!(last.expect("a step"), Step::Nothing);
        assert_eq!(reader.cursor(), 3);
    }

    #[test]
    fn a_gap_is_not_delivered() {
        for frame in [events("t", "e", 3, 1), r#"{"caughtUp":{"threadId":"t","epoch":"e","seq":2}}"#.to_owned()] {
            let mut reader = follow(0, None);
            let (words, last) = feed(&mut reader, &[HELLO, &events("t", "e", 1, 1), &frame]);
            assert_eq!(words, ["hello e 4", "1"]);
            assert!(matches!(last, Err(ClientError::OutOfStep(_))), "{last:?}");
            assert_eq!(reader.cursor(), 1);
        }
    }

    #[test]
    fn events_of_another_log_are_not_delivered() {
        let (words, last) = feed(&mut follow(0, None), &[HELLO, &events("t", "f", 1, 1)]);
        assert_eq!(words, ["hello e 4"]);
        assert!(matches!(last, Err(ClientError::OutOfStep(_))));
        let mut reader = Follow::new("t", TailOptions { epoch: Some("f".into()), ..TailOptions::default() });
        assert!(matches!(feed(&mut reader, &[HELLO]).1, Err(ClientError::Protocol(_))));
    }

    #[test]
    fn a_rebased_log_continues_under_its_new_epoch() {
        let rebased = |from: &str, after: Seq| {
            format!(r#"{{"rebased":{{"threadId":"t","from":"{from}","epoch":"f","after":{after}}}}}"#)
        };
        let mut reader = follow(0, None);
        let (words, last) =
            feed(&mut reader, &[HELLO, &events("t", "e", 1, 2), &rebased("e", 2), &events("t", "f", 3, 1)]);
        assert_eq!(words, ["hello e 4", "1", "2", "rebased e f", "3"]);
        assert!(last.is_ok(), "{last:?}");
        assert_eq!(
            reader.subscribe().to_text(None).expect("text"),
            r#"{"subscribe":{"threadId":"t","after":3,"epoch":"f"}}"#
        );
        for wrong in [rebased("x", 2), rebased("e", 3)] {
            let (_, last) = feed(&mut follow(0, None), &[HELLO, &events("t", "e", 1, 2), &wrong]);
            assert!(matches!(last, Err(ClientError::OutOfStep(_))), "{last:?}");
        }
    }

    #[test]
    fn a_replaced_log_ends_the_stream_with_what_both_have_in_common() {
        for (common, cursor) in [("1", Some((1, "f"))), ("null", None)] {
            let ended = format!(
                r#"{{"ended":{{"threadId":"t","epoch":"f","seq":2,"reason":"log-replaced","tail":9,"commonUpTo":{common}}}}}"#
            );
            let (_, last) = feed(&mut follow(0, None), &[HELLO, &events("t", "e", 1, 2), &ended]);
            let error = last.expect_err("an end");
            let problem = error.problem("log-replaced").expect("a replaced log");
            assert_eq!((problem.common_cursor(), problem.number("tail")), (cursor, Some(9)));
            assert!(!error.is_retryable());
        }
    }

    #[test]
    fn a_thread_that_was_lost_is_not_a_deleted_one() {
        let ended =
            r#"{"ended":{"threadId":"t","epoch":null,"seq":2,"reason":"log-replaced","tail":0,"commonUpTo":null}}"#;
        let (words, last) = feed(&mut follow(0, None), &[HELLO, &events("t", "e", 1, 2), ended]);
        assert_eq!(words, ["hello e 4", "1", "2"]);
        let error = last.expect_err("an end");
        assert_eq!(error.problem("log-replaced").expect("a replaced log").common_cursor(), None);
        assert!(error.to_string().contains("has lost the thread") && !error.is_retryable(), "{error}");
    }

    #[test]
    fn a_damaged_log_is_a_final_error_of_its_thread() {
        let ended = r#"{"ended":{"threadId":"t","epoch":"e","seq":2,"reason":"log-damaged","firstSeq":3,"lastSeq":5}}"#;
        let (words, last) = feed(&mut follow(0, None), &[HELLO, &events("t", "e", 1, 2), ended]);
        assert_eq!(words, ["hello e 4", "1", "2"]);
        let error = last.expect_err("an end");
        let problem = error.problem("log-damaged").expect("a damaged log");
        assert_eq!((problem.status, problem.number("firstSeq"), problem.number("lastSeq")), (500, Some(3), Some(5)));
        assert!(!error.is_retryable());
    }

    #[test]
    fn the_queue_of_the_followed_thread_is_told() {
        let queue = |thread: &str, version: u64| {
            format!(r#"{{"queue":{{"threadId":"{thread}","epoch":"e","version":{version},"queued":1,"held":null}}}}"#)
        };
        let frames = [queue("t", 3), HELLO.to_owned(), queue("t", 3), queue("other", 9), queue("t", 4)];
        let (words, last) = feed(&mut follow(0, None), &frames.each_ref().map(String::as_str));
        assert_eq!(words, ["hello e 4", "queue 3 1", "queue 4 1"]);
        assert_eq!(last.expect("a step"), Step::Nothing);
    }

    #[test]
    fn nothing_counts_before_hello() {
        let (words, last) = feed(&mut follow(0, None), &[&events("t", "e", 7, 1)]);
        assert!(words.is_empty() && last.is_ok());
    }

    #[test]
    fn a_run_begins_where_hello_says_and_is_dense_from_there() {
        let placed = r#"{"hello":{"threadId":"t","epoch":"e","tail":50,"after":39,"runId":"r"}}"#;
        let end = r#"{"ended":{"threadId":"t","epoch":"e","seq":41,"reason":"run-ended"}}"#;
        let (words, _) = feed(&mut follow(0, Some("r")), &[placed, &events("t", "e", 40, 2), end]);
        assert_eq!(words, ["hello e 50", "40", "41", "run-ended"]);

        // A gap at the start, in the middle or at the end is detected.
        for frames in [[&events("t", "e", 41, 1), ""], [&events("t", "e", 40, 1), end]] {
            let mut reader = follow(0, Some("r"));
            let frames: Vec<_> = [placed].into_iter().chain(frames).filter(|text| !text.is_empty()).collect();
            assert!(matches!(feed(&mut reader, &frames).1, Err(ClientError::OutOfStep(_))));
            reader.subscribe();
            let skips = r#"{"hello":{"threadId":"t","epoch":"e","tail":50,"after":41,"runId":"r"}}"#;
            let (_, last) = feed(&mut reader, &[skips, &events("t", "e", 42, 1)]);
            assert!(matches!(last, Err(ClientError::OutOfStep(_))), "{last:?}");
        }
    }

    #[test]
    fn a_new_connection_continues_from_the_cursor_with_the_epoch() {
        let mut reader = follow(0, None);
        let (words, _) = feed(&mut reader, &[HELLO, &events("t", "e", 1, 3)]);
        assert_eq!(words.len(), 4);
        assert_eq!(
            reader.subscribe().to_text(None).expect("text"),
            r#"{"subscribe":{"threadId":"t","after":3,"epoch":"e"}}"#
        );
        let (words, _) = feed(&mut reader, &[&events("t", "e", 4, 1), HELLO, &events("t", "e", 4, 1)]);
        assert_eq!(words, ["hello e 4", "4"]);
    }

    #[test]
    fn the_end_and_refusals() {
        let ended = r#"{"ended":{"threadId":"t","epoch":"e","seq":0,"reason":"thread-deleted"}}"#;
        let (words, last) = feed(&mut follow(0, None), &[HELLO, ended]);
        assert_eq!(words, ["hello e 4", EndReason::ThreadDeleted.as_str()]);
        assert_eq!(last.expect("a step"), Step::Done);
        let refused = r#"{"error":{"slug":"log-replaced","status":410,"retryable":false},"id":"1"}"#;
        let (_, last) = feed(&mut follow(0, None), &[refused]);
        assert!(last.is_err_and(|error| error.problem("log-replaced").is_some()));
    }
}

//! The decision on an append, which is the same for every store: whether it is accepted, and what the stream is then.

use serde::{Deserialize, Serialize};

use super::{ContentType, StreamRecord};

/// Append of a producer: its number within the epoch that the producer claims.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Producer {
    /// Name that the producer keeps across restarts.
    pub id: String,
    /// Number of the restart.
    pub epoch: u64,
    /// Number of the append, from 0 in each epoch.
    pub seq: u64,
}

/// Last append of a producer that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerState {
    /// Epoch of the append.
    pub epoch: u64,
    /// Number of the append.
    pub seq: u64,
}

/// An append, or a request to close a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAppend {
    /// Media type of the content; not compared if there is no content.
    pub content_type: Option<ContentType>,
    /// Bytes or messages; 0 for a request that only closes.
    pub count: u64,
    /// Number of the append in the header `Stream-Seq`.
    pub seq: Option<String>,
    /// Producer, if the append is one of a producer.
    pub producer: Option<Producer>,
    /// True if the stream is to be closed.
    pub closes: bool,
}

/// Outcome of an append that was not refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppendDone {
    /// The append is accepted: the stream is as this record says then.
    Accepted(Box<StreamRecord>),
    /// The append was accepted before, or the stream is closed already, as the request wants it.
    Repeated,
}

/// Result of an append, as the response says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// True if the append has changed the stream.
    pub is_new: bool,
    /// State of the stream.
    pub record: StreamRecord,
    /// Last accepted append of the producer.
    pub producer: Option<ProducerState>,
}

/// Reason for which an append is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppendRefusal {
    /// The stream is closed.
    Closed,
    /// The content has another media type than the stream.
    ContentType,
    /// `Stream-Seq` is not greater than the last one.
    Seq,
    /// The producer has claimed a later epoch.
    StaleEpoch {
        /// Epoch that the producer has begun since.
        current: u64,
    },
    /// An epoch does not begin with the number 0.
    EpochNotFromZero,
    /// Appends of the producer are missing before this one.
    Gap {
        /// Number of the append that is expected.
        expected: u64,
    },
}

/// Decides on an append to a stream. `known` is the state of the append's producer.
///
/// The order of the checks is that of the protocol: a closed stream, the media type, the producer, and `Stream-Seq`, so that a repeated
/// append with both numbers is known by that of its producer.
pub fn append(
    stream: &StreamRecord,
    known: Option<ProducerState>,
    new: &NewAppend,
) -> Result<AppendDone, AppendRefusal> {
    if stream.closed {
        let repeated = match &new.producer {
            Some(producer) => stream.closed_by.as_ref() == Some(producer),
            None => new.closes && new.count == 0,
        };
        return if repeated { Ok(AppendDone::Repeated) } else { Err(AppendRefusal::Closed) };
    }
    let other_type = |content: &ContentType| new.count > 0 && !content.matches(&stream.content_type);
    if new.content_type.as_ref().is_some_and(other_type) {
        return Err(AppendRefusal::ContentType);
    }
    if let Some(producer) = &new.producer
        && !is_next(known, producer)?
    {
        return Ok(AppendDone::Repeated);
    }
    if let (Some(seq), Some(last)) = (&new.seq, &stream.last_seq)
        && seq.as_bytes() <= last.as_bytes()
    {
        return Err(AppendRefusal::Seq);
    }
    let mut record = stream.clone();
    record.tail += new.count;
    record.last_seq = new.seq.clone().or(record.last_seq);
    if new.closes {
        record.closed = true;
        record.closed_by = new.producer.clone();
    }
    Ok(AppendDone::Accepted(Box::new(record)))
}

/// True for the next append of a producer; false for one that was accepted before.
fn is_next(known: Option<ProducerState>, producer: &Producer) -> Result<bool, AppendRefusal> {
    let expected = match known {
        None => 0,
        Some(known) if producer.epoch < known.epoch => {
            return Err(AppendRefusal::StaleEpoch { current: known.epoch });
        }
        Some(known) if producer.epoch > known.epoch => {
            return if producer.seq == 0 { Ok(true) } else { Err(AppendRefusal::EpochNotFromZero) };
        }
        Some(known) if producer.seq <= known.seq => return Ok(false),
        Some(known) => known.seq + 1,
    };
    if producer.seq == expected { Ok(true) } else { Err(AppendRefusal::Gap { expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Epoch;

    fn open() -> StreamRecord {
        StreamRecord {
            epoch: Epoch::NONE,
            content_type: ContentType::parse("text/plain").expect("a type"),
            life: None,
            closed: false,
            closed_by: None,
            tail: 4,
            last_seq: None,
            origin: None,
            inherited: Vec::new(),
        }
    }

    fn plain(count: u64) -> NewAppend {
        NewAppend { content_type: ContentType::parse("Text/Plain"), count, seq: None, producer: None, closes: false }
    }

    fn by(epoch: u64, seq: u64) -> NewAppend {
        NewAppend { producer: Some(Producer { id: "p".to_owned(), epoch, seq }), ..plain(1) }
    }

    fn accepted(done: Result<AppendDone, AppendRefusal>) -> StreamRecord {
        match done {
            Ok(AppendDone::Accepted(record)) => *record,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_append_moves_the_tail_and_may_close() {
        assert_eq!(accepted(append(&open(), None, &plain(3))).tail, 7);
        let closing = NewAppend { closes: true, ..plain(0) };
        let closed = accepted(append(&open(), None, &closing));
        assert!(closed.closed && closed.tail == 4);
        assert_eq!(append(&closed, None, &closing), Ok(AppendDone::Repeated));
        assert_eq!(append(&closed, None, &plain(1)), Err(AppendRefusal::Closed));
        assert_eq!(append(&closed, None, &NewAppend { closes: true, ..plain(1) }), Err(AppendRefusal::Closed));
        // The order of refusals: a closed stream first.
        let other = NewAppend { content_type: ContentType::parse("a/b"), ..plain(1) };
        assert_eq!(append(&closed, None, &other), Err(AppendRefusal::Closed));
        assert_eq!(append(&open(), None, &other), Err(AppendRefusal::ContentType));
        assert!(append(&open(), None, &NewAppend { count: 0, closes: true, ..other }).is_ok());
    }

    #[test]
    fn stream_seqs_increase_by_their_bytes() {
        let with = |seq: &str| NewAppend { seq: Some(seq.to_owned()), ..plain(1) };
        let two = accepted(append(&open(), None, &with("2")));
        for refused in ["2", "10", "", "1z"] {
            assert_eq!(append(&two, None, &with(refused)), Err(AppendRefusal::Seq), "{refused}");
        }
        assert!(append(&two, None, &with("21")).is_ok() && append(&two, None, &with("a")).is_ok());
        // An append without one keeps the last one.
        assert_eq!(accepted(append(&two, None, &plain(1))).last_seq.as_deref(), Some("2"));
    }

    #[test]
    fn appends_of_a_producer_are_accepted_once_and_in_order() {
        let known = |epoch, seq| Some(ProducerState { epoch, seq });
        assert!(matches!(append(&open(), None, &by(3, 0)), Ok(AppendDone::Accepted(_))));
        assert_eq!(append(&open(), None, &by(0, 1)), Err(AppendRefusal::Gap { expected: 0 }));
        assert_eq!(append(&open(), known(1, 4), &by(1, 4)), Ok(AppendDone::Repeated));
        assert_eq!(append(&open(), known(1, 4), &by(1, 0)), Ok(AppendDone::Repeated));
        assert!(matches!(append(&open(), known(1, 4), &by(1, 5)), Ok(AppendDone::Accepted(_))));
        assert_eq!(append(&open(), known(1, 4), &by(1, 6)), Err(AppendRefusal::Gap { expected: 5 }));
        assert_eq!(append(&open(), known(1, 4), &by(0, 9)), Err(AppendRefusal::StaleEpoch { current: 1 }));
        assert_eq!(append(&open(), known(1, 4), &by(2, 1)), Err(AppendRefusal::EpochNotFromZero));
        assert!(matches!(append(&open(), known(1, 4), &by(2, 0)), Ok(AppendDone::Accepted(_))));
        // A repeated append is known before its Stream-Seq is compared.
        let stream = StreamRecord { last_seq: Some("5".to_owned()), ..open() };
        let again = NewAppend { seq: Some("5".to_owned()), ..by(1, 4) };
        assert_eq!(append(&stream, known(1, 4), &again), Ok(AppendDone::Repeated));
        assert_eq!(append(&stream, known(1, 3), &again), Err(AppendRefusal::Seq));
    }

    #[test]
    fn only_the_append_that_closed_a_stream_may_be_repeated() {
        let closing = NewAppend { closes: true, ..by(0, 2) };
        let closed = accepted(append(&open(), Some(ProducerState { epoch: 0, seq: 1 }), &closing));
        let known = Some(ProducerState { epoch: 0, seq: 2 });
        assert_eq!(append(&closed, known, &closing), Ok(AppendDone::Repeated));
        assert_eq!(append(&closed, known, &by(0, 1)), Err(AppendRefusal::Closed));
        assert_eq!(append(&closed, known, &NewAppend { closes: true, ..by(0, 3) }), Err(AppendRefusal::Closed));
    }
}

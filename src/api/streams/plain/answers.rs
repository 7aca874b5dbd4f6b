//! Header fields of responses on plain streams, and refusals that have some.

use axum::{
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use threadline_core::Timestamp;
use threadline_core::streams::{AppendRefusal, Life, Producer, ProducerState, StreamRecord};
use threadline_engine::StreamError;
use threadline_http::problem::Problem;

use crate::api::streams::{headers::End, offset::Offset};

/// Time to live of a stream, in seconds.
pub const TTL: HeaderName = HeaderName::from_static("stream-ttl");
/// Time at which a stream expires.
pub const EXPIRES_AT: HeaderName = HeaderName::from_static("stream-expires-at");
/// Encoding of the data of server-sent events.
pub const DATA_ENCODING: HeaderName = HeaderName::from_static("stream-sse-data-encoding");
/// Epoch of a producer.
pub const PRODUCER_EPOCH: HeaderName = HeaderName::from_static("producer-epoch");
/// Number of a producer's append: in responses, of the last one that was accepted.
pub const PRODUCER_SEQ: HeaderName = HeaderName::from_static("producer-seq");
/// Number that the next append of a producer must have.
pub const EXPECTED_SEQ: HeaderName = HeaderName::from_static("producer-expected-seq");
/// Number that a refused append had.
pub const RECEIVED_SEQ: HeaderName = HeaderName::from_static("producer-received-seq");

/// Offset of a position in a stream.
pub fn offset(record: &StreamRecord, at: u64) -> Offset {
    Offset { seq: at, epoch: record.epoch }
}

/// End of a response that reaches a position.
pub fn end(record: &StreamRecord, at: u64) -> End {
    let up_to_date = at >= record.tail;
    End { next: offset(record, at), up_to_date, closed: record.closed && up_to_date }
}

/// End of a stream without the mark of a read, for responses to writes.
pub fn tail(record: &StreamRecord) -> End {
    End { up_to_date: false, ..end(record, record.tail) }
}

/// Adds the media type of a stream. A browser that opens a stream of HTML runs none of its scripts: it has the origin of the console.
pub fn typed(mut response: Response, record: &StreamRecord) -> Response {
    let headers = response.headers_mut();
    if let Ok(kind) = HeaderValue::from_str(record.content_type.as_str()) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    response
}

/// Adds the life of a stream.
pub fn with_life(mut response: Response, record: &StreamRecord) -> Response {
    let headers = response.headers_mut();
    match record.life {
        Some(Life::Idle(seconds)) => drop(headers.insert(TTL, HeaderValue::from(seconds))),
        Some(Life::Until(at)) => {
            if let Ok(at) = HeaderValue::from_str(&Timestamp(at).to_string()) {
                headers.insert(EXPIRES_AT, at);
            }
        }
        None => {}
    }
    response
}

/// Adds the last accepted append of a producer.
pub fn with_producer(mut response: Response, producer: Option<ProducerState>) -> Response {
    if let Some(ProducerState { epoch, seq }) = producer {
        let headers = response.headers_mut();
        headers.insert(PRODUCER_EPOCH, HeaderValue::from(epoch));
        headers.insert(PRODUCER_SEQ, HeaderValue::from(seq));
    }
    response
}

/// Response to a write that failed, with the header fields by which clients know the reason.
pub fn refused(error: StreamError, producer: Option<&Producer>) -> Response {
    let StreamError::Refused(refusal, record) = &error else { return Problem::from(error).into_response() };
    let (refusal, record) = (refusal.clone(), record.clone());
    let mut response = Problem::from(error).into_response();
    let headers = response.headers_mut();
    let mut insert = |name: HeaderName, number: u64| drop(headers.insert(name, HeaderValue::from(number)));
    match refusal {
        AppendRefusal::Closed => response = tail(&record).mark(response, None),
        AppendRefusal::StaleEpoch { current } => insert(PRODUCER_EPOCH, current),
        AppendRefusal::Gap { expected } => {
            insert(EXPECTED_SEQ, expected);
            insert(RECEIVED_SEQ, producer.map_or(0, |producer| producer.seq));
        }
        AppendRefusal::ContentType | AppendRefusal::Seq | AppendRefusal::EpochNotFromZero => {}
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;
    use threadline_core::{Epoch, streams::ContentType};

    use super::*;

    fn has(headers: &HeaderMap, name: &HeaderName, text: &str) -> bool {
        headers.get(name).is_some_and(|value| value == text)
    }

    #[test]
    fn refusals_say_what_a_producer_needs() {
        let record = StreamRecord {
            epoch: Epoch::NONE,
            content_type: ContentType::binary(),
            life: None,
            closed: true,
            closed_by: None,
            tail: 7,
            last_seq: None,
            origin: None,
            inherited: Vec::new(),
        };
        let producer = Producer { id: "p".to_owned(), epoch: 1, seq: 9 };
        let answer = |refusal| refused(StreamError::Refused(refusal, Box::new(record.clone())), Some(&producer));
        let gap = answer(AppendRefusal::Gap { expected: 5 });
        assert_eq!(gap.status(), 409);
        assert!(has(gap.headers(), &EXPECTED_SEQ, "5") && has(gap.headers(), &RECEIVED_SEQ, "9"));
        let stale = answer(AppendRefusal::StaleEpoch { current: 4 });
        assert_eq!(stale.status(), 403);
        assert!(has(stale.headers(), &PRODUCER_EPOCH, "4"));
        let closed = answer(AppendRefusal::Closed);
        assert_eq!(closed.status(), 409);
        let next = HeaderName::from_static("stream-next-offset");
        assert!(has(closed.headers(), &next, "0000000000000007_0000000000000000"));
        assert!(has(closed.headers(), &HeaderName::from_static("stream-closed"), "true"));
        assert_eq!(answer(AppendRefusal::EpochNotFromZero).status(), 400);
    }
}

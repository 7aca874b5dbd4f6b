//! Decoder of event streams: takes bytes, and yields the data of each event.
//!
//! Source: <https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream>. Only `data` is
//! used; `event`, `id`, `retry`, comments and unknown fields are skipped without being buffered. Bytes are not decoded:
//! invalid UTF-8 is refused by the validation of events, instead of being replaced here.
//!
//! The decoder is Threadline's own, because `eventsource-stream` 0.2.3 buffers a line of any length, scans its complete
//! buffer again with every chunk, and panics at a byte order mark.

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr2;
use threadline_core::limits::MAX_EVENT_BYTES;

const BOM: &[u8] = b"\xef\xbb\xbf";
const FIELD: &[u8] = b"data";

/// Error: an event's data is longer than [`MAX_EVENT_BYTES`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Position of the next byte in the stream.
#[derive(Debug, Clone, Copy)]
enum At {
    /// Start of the stream, after this many bytes of a byte order mark.
    Start(usize),
    /// Field name: the line so far is this many bytes of `data`.
    Field(usize),
    /// After `data:`; one space here is skipped.
    Space,
    /// Value of a `data` line.
    Value,
    /// Line that is ignored.
    Skip,
}

/// Decoder: feed it a chunk, take out events until none is left, feed it the next chunk. Each byte is read once,
/// however the chunks are cut, and memory holds no more than one event's data and the chunk.
#[derive(Debug)]
pub(super) struct Decoder {
    chunk: Bytes,
    at: At,
    /// True if the last line ended in CR: a following LF belongs to that line end.
    after_cr: bool,
    data: BytesMut,
    /// True if the event has a `data` line, perhaps an empty one.
    any: bool,
}

impl Decoder {
    /// Starts at the beginning of a stream.
    pub(super) fn new() -> Self {
        Self { chunk: Bytes::new(), at: At::Start(0), after_cr: false, data: BytesMut::new(), any: false }
    }

    /// Adds a chunk; the previous one must have been consumed by [`Decoder::next`].
    pub(super) fn feed(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty(), "events are taken out before bytes are put in");
        self.chunk = chunk;
    }

    /// Takes the data of the next complete event; its lines are joined by LF. An event that the stream leaves
    /// incomplete is dropped. The decoder must not be used after an error.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, TooLarge> {
        while let Some(&byte) = self.chunk.first() {
            if self.after_cr {
                self.after_cr = false;
                if byte == b'\n' {
                    self.chunk.advance(1);
                    continue;
                }
            }
            let line_end = matches!(byte, b'\r' | b'\n');
            match self.at {
                At::Start(n) if byte == BOM[n] => {
                    self.chunk.advance(1);
                    self.at = if n + 1 == BOM.len() { At::Field(0) } else { At::Start(n + 1) };
                }
                At::Start(n) => self.at = if n == 0 { At::Field(0) } else { At::Skip },
                At::Field(n) if line_end => {
                    self.end_line();
                    if n == FIELD.len() {
                        self.begin_value()?;
                    } else if n == 0 && self.any {
                        self.any = false;
                        return Ok(Some(self.data.split().freeze()));
                    }
                }
                At::Field(n) => {
                    self.chunk.advance(1);
                    self.at = match FIELD.get(n) {
                        Some(expected) if *expected == byte => At::Field(n + 1),
                        None if byte == b':' => {
                            self.begin_value()?;
                            At::Space
                        }
                        _ => At::Skip,
                    };
                }
                At::Space => {
                    if byte == b' ' {
                        self.chunk.advance(1);
                    }
                    self.at = At::Value;
                }
                At::Value | At::Skip => {
                    let end = memchr2(b'\r', b'\n', &self.chunk).unwrap_or(self.chunk.len());
                    if matches!(self.at, At::Value) {
                        self.push(end)?;
                    }
                    self.chunk.advance(end);
                    if !self.chunk.is_empty() {
                        self.end_line();
                    }
                }
            }
        }
        Ok(None)
    }

    /// Consumes the CR or LF at the front. The LF of a CRLF is consumed with the next byte, because an event is
    /// complete before it arrives.
    fn end_line(&mut self) {
        self.after_cr = self.chunk.first() == Some(&b'\r');
        self.chunk.advance(1);
        self.at = At::Field(0);
    }

    fn begin_value(&mut self) -> Result<(), TooLarge> {
        if self.any {
            if self.data.len() == MAX_EVENT_BYTES {
                return Err(TooLarge);
            }
            self.data.extend_from_slice(b"\n");
        }
        self.any = true;
        Ok(())
    }

    fn push(&mut self, bytes: usize) -> Result<(), TooLarge> {
        if self.data.len() + bytes > MAX_EVENT_BYTES {
            return Err(TooLarge);
        }
        self.data.extend_from_slice(&self.chunk[..bytes]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<String>, TooLarge> {
        let (mut decoder, mut events) = (Decoder::new(), Vec::new());
        for chunk in chunks {
            decoder.feed(Bytes::copy_from_slice(chunk));
            while let Some(event) = decoder.next()? {
                events.push(String::from_utf8(event.into()).expect("UTF-8"));
            }
        }
        Ok(events)
    }

    /// Decodes the stream whole, cut in two at every byte, byte by byte, and with empty chunks in between: the result
    /// must always be the same.
    fn check(stream: &str, expected: &[&str]) {
        let bytes = stream.as_bytes();
        assert_eq!(decode([bytes]).expect("small"), expected, "{stream:?}");
        for cut in 0..=bytes.len() {
            assert_eq!(decode([&bytes[..cut], &[], &bytes[cut..]]).expect("small"), expected, "{stream:?} at {cut}");
        }
        assert_eq!(decode(bytes.chunks(1)).expect("small"), expected, "{stream:?} byte by byte");
    }

    #[test]
    fn the_examples_of_the_specification() {
        check(
            ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
            &["first event", "second event", " third event"],
        );
        check("data: YHOO\ndata: +2\ndata: 10\n\n", &["YHOO\n+2\n10"]);
        // An empty `data` is an event too; the last event is never completed.
        check("data\n\ndata\ndata\n\ndata:", &["", "\n"]);
        check("data:test\n\ndata: test\n\n", &["test", "test"]);
    }

    #[test]
    fn lines_end_in_any_of_three_ways_wherever_the_stream_is_cut() {
        for end in ["\n", "\r", "\r\n"] {
            let lines =
                ["\u{feff}data: {\"a\":", "data:\"é😀\"}", ": still alive", "", "", "event: x", "data: b", "", ""];
            check(&lines.join(end), &["{\"a\":\n\"é😀\"}", "b"]);
        }
        check("data: a\r\ndata: b\n\r\ndata: c\r\r\n\n", &["a\nb", "c"]);
        // CR, then CRLF, are two line ends.
        check("data: a\r\r\ndata: b\n\n", &["a", "b"]);
    }

    #[test]
    fn a_byte_order_mark_counts_only_once_and_only_at_the_start() {
        check("\u{feff}\u{feff}data: a\n\ndata: b\n\n", &["b"]);
        check("data: a\n\n\u{feff}data: b\n\n", &["a"]);
        // A partial byte order mark is part of an unknown field name.
        assert_eq!(decode([&b"\xef\xbbdata: a\n\ndata: b\n\n"[..]]).expect("small"), ["b"]);
    }

    #[test]
    fn an_event_is_there_with_the_blank_line_that_ends_it() {
        let mut decoder = Decoder::new();
        decoder.feed(Bytes::from_static(b"data: a\r\n\r"));
        assert_eq!(decoder.next(), Ok(Some(Bytes::from_static(b"a"))));
        assert_eq!(decoder.next(), Ok(None));
    }

    #[test]
    fn fields_without_meaning_are_not_kept() {
        check("dat: a\ndatax: b\nDATA: c\n data: d\nretry: 5\n\nid: 7\nevent: e\n\n", &[]);
        let (mut decoder, chunk) = (Decoder::new(), Bytes::from(vec![b'x'; 1024 * 1024]));
        for field in [&b":"[..], b"event: ", b"data-"] {
            decoder.feed(Bytes::from_static(field));
            assert_eq!(decoder.next(), Ok(None));
            for _ in 0..20 {
                decoder.feed(chunk.clone());
                assert_eq!(decoder.next(), Ok(None));
            }
            decoder.feed(Bytes::from_static(b"\n"));
            assert_eq!(decoder.next(), Ok(None));
        }
        assert_eq!(decoder.data.capacity(), 0);
    }

    #[test]
    fn the_largest_event_is_read_and_one_byte_more_is_refused() {
        let lines = |bytes: usize| {
            // One byte of each line is the LF that joins it to the next.
            let line = [&b"data: "[..], &[b'x'; 1023], b"\n"].concat();
            let mut stream = line.repeat(bytes / 1024);
            stream.extend_from_slice(b"data:");
            stream.extend(std::iter::repeat_n(b'y', bytes % 1024));
            stream.extend_from_slice(b"\n\n");
            stream
        };
        let whole = lines(MAX_EVENT_BYTES - 1);
        assert_eq!(decode(whole.chunks(65_536)).map(|events| events[0].len()), Ok(MAX_EVENT_BYTES - 1));
        let whole = [&b"data: "[..], &vec![b'x'; MAX_EVENT_BYTES], b"\n\n"].concat();
        assert_eq!(decode([&whole[..]]).map(|events| events[0].len()), Ok(MAX_EVENT_BYTES));
        let over = [&b"data: "[..], &vec![b'x'; MAX_EVENT_BYTES + 1]].concat();
        assert_eq!(decode([&over[..]]), Err(TooLarge), "before its end is seen");
        assert_eq!(decode(over.chunks(1_000)), Err(TooLarge));
        let empty = b"data\n".repeat(MAX_EVENT_BYTES + 2);
        assert_eq!(decode([&empty[..]]), Err(TooLarge), "empty lines count too");
    }
}

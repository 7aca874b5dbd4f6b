//! JSON mode: messages on lines of their own, so that a part of a chunk can be read without parsing.

use std::fmt;

use serde::{
    Deserializer as _,
    de::{SeqAccess, Visitor},
};
use serde_json::{Deserializer, value::RawValue};

use crate::{json, limits::MAX_JSON_DEPTH};

/// Reason for which a body has no messages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The body is no JSON text.
    #[error("the body is not JSON: {0}")]
    Invalid(String),
    /// The body is nested too deeply.
    #[error("the body is nested deeper than {MAX_JSON_DEPTH} levels")]
    TooDeep,
}

/// Visitor that passes on the items of an array one by one: a list of millions of them would be larger than the body.
struct Items<F>(F);

impl<'de, F: FnMut(&'de RawValue)> Visitor<'de> for Items<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element()? {
            (self.0)(item);
        }
        Ok(())
    }
}

/// Messages of a body, each with a line feed behind it, and their number: the items of an array, or else the one value.
pub fn messages(body: &[u8]) -> Result<(Vec<u8>, u64), MessageError> {
    if json::depth(body, MAX_JSON_DEPTH) > MAX_JSON_DEPTH {
        return Err(MessageError::TooDeep);
    }
    let invalid = |error: serde_json::Error| MessageError::Invalid(error.to_string());
    let mut lines = Vec::with_capacity(body.len() + 1);
    let mut count = 0;
    let mut add = |message: &RawValue| {
        // A line break between tokens is only white space: inside a string it would be escaped.
        let bytes = message.get().bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte });
        lines.extend(bytes);
        lines.push(b'\n');
        count += 1;
    };
    if body.trim_ascii_start().starts_with(b"[") {
        let mut text = Deserializer::from_slice(body);
        text.deserialize_seq(Items(add)).and_then(|()| text.end()).map_err(invalid)?;
    } else {
        add(serde_json::from_slice(body).map_err(invalid)?);
    }
    Ok((lines, count))
}

/// The messages on these lines as the items of an array, without its brackets.
pub fn array(lines: &[u8], out: &mut Vec<u8>) {
    let mut rest = lines.strip_suffix(b"\n").unwrap_or(lines);
    while let Some(end) = memchr::memchr(b'\n', rest) {
        out.extend_from_slice(&rest[..end]);
        out.push(b',');
        rest = &rest[end + 1..];
    }
    out.extend_from_slice(rest);
}

/// The bytes of a chunk from one position in it to another: bytes, or lines.
pub fn part(body: &[u8], from: u64, to: u64, is_json: bool) -> &[u8] {
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(body.len());
    if !is_json {
        return &body[index(from)..index(to).max(index(from))];
    }
    // Position of the first byte after as many lines.
    let line = |lines: u64| match lines.checked_sub(1) {
        None => 0,
        Some(last) => memchr::memchr_iter(b'\n', body).nth(index(last)).map_or(body.len(), |end| end + 1),
    };
    let (from, to) = (line(from), line(to));
    &body[from..to.max(from)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(body: &str) -> Result<(String, u64), MessageError> {
        messages(body.as_bytes()).map(|(lines, count)| (String::from_utf8(lines).expect("UTF-8"), count))
    }

    #[test]
    fn an_array_is_flattened_by_one_level() {
        assert_eq!(lines(r#"{"a":1}"#), Ok(("{\"a\":1}\n".to_owned(), 1)));
        assert_eq!(lines(" [1, [2,3],\"x\\ny\"] "), Ok(("1\n[2,3]\n\"x\\ny\"\n".to_owned(), 3)));
        assert_eq!(lines("[]"), Ok((String::new(), 0)));
        assert_eq!(lines("{\n\"a\":\r\n1}"), Ok(("{ \"a\":  1}\n".to_owned(), 1)));
        for bad in ["", "{", "[1,]", "1 2", "nul", "[1]x"] {
            assert!(matches!(lines(bad), Err(MessageError::Invalid(_))), "{bad:?}");
        }
        let deep = "[".repeat(MAX_JSON_DEPTH + 1);
        assert_eq!(lines(&deep), Err(MessageError::TooDeep));
        assert!(messages(b"\"\xff\"").is_err());
    }

    #[test]
    fn parts_are_cut_by_bytes_or_by_lines() {
        let text = |from, to, is_json| String::from_utf8_lossy(part(b"ab\nc\nd\n", from, to, is_json)).into_owned();
        assert_eq!(text(0, 3, true), "ab\nc\nd\n");
        assert_eq!(text(1, 2, true), "c\n");
        assert_eq!((text(3, 3, true), text(2, 9, true)), (String::new(), "d\n".to_owned()));
        assert_eq!(
            (text(1, 4, false), text(6, 99, false), text(5, 2, false)),
            ("b\nc".to_owned(), "\n".to_owned(), String::new())
        );
        let mut out = Vec::new();
        array(b"1\n2\n", &mut out);
        assert_eq!(out, b"1,2");
    }
}

//! Annotations: what somebody notes about a thread, beside its log. No event, and no part of what was said.

use serde_json::value::RawValue;

use super::{
    AnnotationId, Timestamp, json,
    limits::{MAX_ANNOTATION_BYTES, MAX_ANNOTATION_TYPE_BYTES, MAX_JSON_DEPTH},
};

/// Why something cannot be an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    /// The type is empty, too long, or no text that every store can keep.
    #[error("the type of an annotation has 1 to {MAX_ANNOTATION_TYPE_BYTES} bytes, and no U+0000")]
    Type,
    /// The payload is too large.
    #[error("the payload of an annotation has at most {MAX_ANNOTATION_BYTES} bytes of JSON")]
    TooLarge,
    /// The payload is nested too deep.
    #[error("the payload of an annotation is nested at most {MAX_JSON_DEPTH} levels deep")]
    TooDeep,
}

/// An annotation of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    /// Its id, unique in the thread: the same annotation sent again is known by it.
    pub id: AnnotationId,
    /// What it is, in the words of whoever makes it.
    pub kind: String,
    /// What it says: a JSON text on one line, `null` if it says nothing.
    pub payload: String,
    /// When it happened, as its maker says.
    pub occurred_at: Option<Timestamp>,
    /// When it was stored.
    pub at: Timestamp,
}

/// An annotation that is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAnnotation {
    /// See [`Annotation::id`].
    pub id: AnnotationId,
    /// See [`Annotation::kind`].
    pub kind: String,
    /// See [`Annotation::payload`].
    pub payload: String,
    /// See [`Annotation::occurred_at`].
    pub occurred_at: Option<Timestamp>,
    /// When it was stored before, in a store that it is moved from.
    pub at: Option<Timestamp>,
}

impl NewAnnotation {
    /// Checks what is to be stored for the first time. The payload is kept byte for byte; only CR and LF outside strings
    /// become spaces.
    pub fn new(
        id: AnnotationId,
        kind: String,
        payload: Option<&RawValue>,
        occurred_at: Option<Timestamp>,
    ) -> Result<Self, AnnotationError> {
        if kind.is_empty() || kind.len() > MAX_ANNOTATION_TYPE_BYTES || kind.contains('\0') {
            return Err(AnnotationError::Type);
        }
        let payload = payload.map_or("null", RawValue::get);
        if payload.len() > MAX_ANNOTATION_BYTES {
            return Err(AnnotationError::TooLarge);
        }
        if json::depth(payload.as_bytes(), MAX_JSON_DEPTH) > MAX_JSON_DEPTH {
            return Err(AnnotationError::TooDeep);
        }
        // Valid JSON has CR and LF only between tokens, so this touches no string.
        Ok(Self { id, kind, payload: payload.replace(['\r', '\n'], " "), occurred_at, at: None })
    }

    /// The annotation that it becomes when it is stored now.
    pub fn made(self, now: Timestamp) -> Annotation {
        let Self { id, kind, payload, occurred_at, at } = self;
        Annotation { id, kind, payload, occurred_at, at: at.unwrap_or(now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(kind: &str, payload: Option<&str>) -> Result<NewAnnotation, AnnotationError> {
        let payload = payload.map(|text| serde_json::from_str::<Box<RawValue>>(text).expect("JSON"));
        NewAnnotation::new(AnnotationId::new("a").expect("id"), kind.to_owned(), payload.as_deref(), None)
    }

    #[test]
    fn a_payload_is_kept_byte_for_byte_on_one_line() {
        let kept = |payload| new("t", payload).expect("an annotation").payload;
        assert_eq!(
            kept(Some("{\"a\" :\r\n1.0,\"a\":2, \"s\":\"\\ud800\\u0000\\n\"}")),
            "{\"a\" :  1.0,\"a\":2, \"s\":\"\\ud800\\u0000\\n\"}"
        );
        assert_eq!(kept(None), "null");
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let cases = [
            (new("", None), Err(AnnotationError::Type)),
            (new("a\0b", None), Err(AnnotationError::Type)),
            (new(&"x".repeat(MAX_ANNOTATION_TYPE_BYTES + 1), None), Err(AnnotationError::Type)),
            (new(&"x".repeat(MAX_ANNOTATION_TYPE_BYTES), None), Ok(())),
            (new("t", Some(&text(MAX_ANNOTATION_BYTES + 1))), Err(AnnotationError::TooLarge)),
            (new("t", Some(&text(MAX_ANNOTATION_BYTES))), Ok(())),
            (new("t", Some(&deep(MAX_JSON_DEPTH))), Ok(())),
            (new("t", Some(&deep(MAX_JSON_DEPTH + 1))), Err(AnnotationError::TooDeep)),
        ];
        for (made, wanted) in cases {
            assert_eq!(made.map(drop), wanted);
        }
    }
}

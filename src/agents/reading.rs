//! Reads the JSON of an agent's input, of which only the syntax was checked.

use std::borrow::Cow;

use memchr::memchr_iter;
use serde_json::value::RawValue;
use threadline_core::json;

/// Replaces each lone surrogate escape (`\ud800`) with U+FFFD. AG-UI clients are written in JavaScript, whose strings
/// may hold lone surrogates; neither a Rust string nor a model's endpoint accepts them.
pub(super) fn whole(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let unit = |at: usize| {
        let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let (mut out, mut copied, mut next) = (String::new(), 0, 0);
    for at in memchr_iter(b'\\', bytes) {
        if at < next {
            // The second character of an escape.
            continue;
        }
        next = at + 2;
        match unit(at) {
            Some(0xd800..=0xdbff) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => next = at + 12,
            Some(0xd800..=0xdfff) => {
                out.push_str(&text[copied..at]);
                out.push_str("\\ufffd");
                next = at + 6;
                copied = next;
            }
            _ => {}
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// JSON without line ends, as events are stored. Valid JSON has them only between tokens.
pub(super) fn without_line_ends(json: &str) -> String {
    json.replace(['\r', '\n'], " ")
}

/// Text of JSON on one line: escapes the characters that JSON leaves as they are and that some readers take for the end of
/// a line.
pub(super) fn one_line(json: &str) -> String {
    let line = without_line_ends(json).replace('\u{85}', "\\u0085");
    line.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// Items of an array; empty for any other value.
pub(super) fn items(text: &str) -> Vec<Object<'_>> {
    let items: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
    items.into_iter().map(|item| Object(item.get())).collect()
}

/// A JSON value, read as an object; a value of another kind has no members. Of members that occur twice the last one
/// counts, as in `JSON.parse`. Members are parsed only on request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Object<'a>(pub(super) &'a str);

impl<'a> Object<'a> {
    /// Raw text of a member; `null` counts as absent.
    pub(super) fn raw(self, name: &str) -> Option<&'a str> {
        json::member(self.0, name).filter(|value| *value != "null")
    }

    /// Value of a member that is a string.
    pub(super) fn text(self, name: &str) -> Option<String> {
        self.raw(name).and_then(json::string)
    }

    /// Items of a member that is an array.
    pub(super) fn items(self, name: &str) -> Vec<Object<'a>> {
        self.raw(name).map(items).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_characters_become_the_replacement_character() {
        for (text, expected) in [
            (r#""a""#, "a"),
            (r#""\ud83d\ude00""#, "😀"),
            (r#""\ud83d\ud83d\ude00\ude00""#, "\u{fffd}😀\u{fffd}"),
            (r#""\uD800x\udfff\u00e9""#, "\u{fffd}x\u{fffd}é"),
            (r#""\\ud800\\\ud800""#, "\\ud800\\\u{fffd}"),
            (r#""\ud800\\udc00""#, "\u{fffd}\\udc00"),
        ] {
            assert_eq!(json::string(&whole(text)).as_deref(), Some(expected), "{text}");
        }
        for text in ["", "\\", "\\u", "\\ud8", "\\ud800", "\\ud83d\\u", "\\uéé"] {
            // Invalid JSON must not cause a panic.
            whole(text);
        }
    }

    #[test]
    fn objects_are_looked_into_leniently() {
        let list = items(r#"[{"a":1,"a":"x","n":null,"big":1e999,"l":[{"b":"y"}]}, 7]"#);
        assert_eq!(list[0].text("a").as_deref(), Some("x"));
        assert_eq!((list[0].raw("n"), list[0].raw("big")), (None, Some("1e999")));
        assert_eq!(list[0].items("l")[0].text("b").as_deref(), Some("y"));
        assert_eq!(list[1].raw("a"), None);
        assert!(items("{}").is_empty() && items("nonsense").is_empty());
    }
}

//! Text that may be cut inside a character.
//!
//! JavaScript cuts strings between UTF-16 units, so a delta may end with `\ud83d` and the next one begin with `\ude00`.
//! The log keeps both as they are; here they are joined. Until the other half arrives, a half is held as WTF-8
//! (<https://simonsapin.github.io/wtf-8/>), which is also how `serde_json` hands out strings as bytes, and it is
//! written back as the escape that it was.

use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

use super::canonical::beyond_doubles;

/// String of Unicode code points, halves of surrogate pairs among them: well-formed WTF-8.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Text(Vec<u8>);

/// String value of JSON as WTF-8, borrowed if it has no escapes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wtf8<'a>(Cow<'a, [u8]>);

impl<'a> Wtf8<'a> {
    /// Reads a string token; `None` for every other token.
    pub fn of(token: &'a str) -> Option<Self> {
        let inner = token.strip_prefix('"')?.strip_suffix('"')?;
        if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
            return Some(Self(Cow::Borrowed(inner.as_bytes())));
        }
        serde_json::from_str(token).ok()
    }

    /// WTF-8 bytes of the string.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Text as UTF-8. Fails if it holds a lone half.
    pub fn into_utf8(self) -> Result<String, std::string::FromUtf8Error> {
        String::from_utf8(self.0.into_owned())
    }

    /// Text as UTF-8, with U+FFFD in the place of every lone half.
    pub fn into_string(self) -> String {
        match String::from_utf8(self.0.into_owned()) {
            Ok(text) => text,
            Err(error) => lossy(error.as_bytes()),
        }
    }

    /// Text as [`Wtf8::into_string`] gives it, borrowed if it holds no lone half.
    pub fn as_str(&self) -> Cow<'_, str> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => Cow::Owned(lossy(&self.0)),
        }
    }
}

impl<'de> Deserialize<'de> for Wtf8<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl<'de> Visitor<'de> for Bytes {
            type Value = Wtf8<'de>;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a string")
            }
            fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
                Ok(Wtf8(Cow::Borrowed(bytes)))
            }
            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                Ok(Wtf8(Cow::Owned(bytes.to_vec())))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

impl Text {
    /// Length in bytes of WTF-8.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Text as UTF-8, with U+FFFD in the place of every lone half.
    pub fn as_str(&self) -> Cow<'_, str> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => Cow::Owned(lossy(&self.0)),
        }
    }

    /// Appends a text, and joins two halves that meet.
    pub fn push(&mut self, more: &Wtf8<'_>) {
        let more = &more.0[..];
        if let (Some(high), Some(low)) = (high_at_end(&self.0), low_at_start(more)) {
            let point = 0x1_0000 + (u32::from(high - 0xd800) << 10) + u32::from(low - 0xdc00);
            self.0.truncate(self.0.len() - 3);
            let joined = char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER);
            self.0.extend_from_slice(joined.encode_utf8(&mut [0; 4]).as_bytes());
            self.0.extend_from_slice(&more[3..]);
        } else {
            self.0.extend_from_slice(more);
        }
    }

    /// Appends the JSON string; lone halves as the escapes that they were.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.push(b'"');
        let mut rest = &self.0[..];
        while !rest.is_empty() {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    escape(text, out);
                    break;
                }
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    escape(std::str::from_utf8(good).unwrap_or_default(), out);
                    let (unit, length) = half(bad).map_or((0xfffd, 1), |unit| (unit, 3));
                    out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                    rest = &bad[length.min(bad.len())..];
                }
            }
        }
        out.push(b'"');
    }
}

impl From<Wtf8<'_>> for Text {
    fn from(text: Wtf8<'_>) -> Self {
        Self(text.0.into_owned())
    }
}

/// Appends a text as a JSON string token.
pub(super) fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    escape(text, out);
    out.push(b'"');
}

fn escape(text: &str, out: &mut Vec<u8>) {
    let mut start = 0;
    for (at, byte) in text.bytes().enumerate() {
        let short = match byte {
            b'"' => b'"',
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0..0x20 => 0,
            _ => continue,
        };
        out.extend_from_slice(&text.as_bytes()[start..at]);
        match short {
            0 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            short => out.extend_from_slice(&[b'\\', short]),
        }
        start = at + 1;
    }
    out.extend_from_slice(&text.as_bytes()[start..]);
}

/// Surrogate that the bytes begin with.
fn half(bytes: &[u8]) -> Option<u16> {
    match *bytes {
        [0xed, second @ 0xa0..=0xbf, third @ 0x80..=0xbf, ..] => {
            Some(0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f))
        }
        _ => None,
    }
}

fn high_at_end(bytes: &[u8]) -> Option<u16> {
    half(bytes.get(bytes.len().checked_sub(3)?..)?).filter(|unit| *unit < 0xdc00)
}

fn low_at_start(bytes: &[u8]) -> Option<u16> {
    half(bytes).filter(|unit| *unit >= 0xdc00)
}

fn lossy(mut bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    while !bytes.is_empty() {
        match std::str::from_utf8(bytes) {
            Ok(good) => {
                text.push_str(good);
                break;
            }
            Err(error) => {
                let (good, bad) = bytes.split_at(error.valid_up_to());
                text.push_str(std::str::from_utf8(good).unwrap_or_default());
                text.push(char::REPLACEMENT_CHARACTER);
                bytes = &bad[half(bad).map_or(1, |_| 3)..];
            }
        }
    }
    text
}

/// Replaces lone surrogate escapes in JSON text by U+FFFD, because no UTF-8 text can hold them.
pub(in crate::projection) fn without_lone_halves(json: &str) -> String {
    let bytes = json.as_bytes();
    let unit = |at: usize| -> Option<u16> {
        let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut out = String::with_capacity(json.len());
    let (mut start, mut at) = (0, 0);
    while let Some(found) = memchr::memchr(b'\\', &bytes[at.min(bytes.len())..]) {
        at += found;
        match unit(at) {
            Some(0xd800..0xdc00) if unit(at + 6).is_some_and(|next| (0xdc00..0xe000).contains(&next)) => at += 12,
            Some(0xd800..0xe000) => {
                out.push_str(&json[start..at]);
                out.push_str("\\ufffd");
                at += 6;
                start = at;
            }
            _ => at += 2,
        }
    }
    out.push_str(&json[start..]);
    out
}

/// Reads a JSON value; lone halves in it become U+FFFD, and numbers beyond a double null, as JavaScript writes them.
/// `None` if the text is not JSON.
pub(super) fn value(json: &str) -> Option<serde_json::Value> {
    if let Ok(value) = serde_json::from_str(json) {
        return Some(value);
    }
    let readable = if json.contains("\\u") { without_lone_halves(json) } else { json.to_owned() };
    let beyond = beyond_doubles(&readable);
    let mut out = String::with_capacity(readable.len());
    let mut end = 0;
    for place in beyond {
        out.push_str(&readable[end..place.start]);
        out.push_str("null");
        end = place.end;
    }
    out.push_str(&readable[end..]);
    serde_json::from_str(&out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(parts: &[&str]) -> String {
        let mut text = Text::default();
        for part in parts {
            text.push(&Wtf8::of(part).expect("a string"));
        }
        let mut out = Vec::new();
        text.write_json(&mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn halves_that_meet_are_joined_and_others_stay() {
        assert_eq!(written(&[r#""a\ud83d""#, r#""\ude00b""#]), "\"a😀b\"");
        assert_eq!(written(&[r#""\ud83d""#, r#""""#, r#""\ude00""#]), "\"😀\"");
        assert_eq!(written(&[r#""\ud83d""#, r#""x\ude00""#]), r#""\ud83dx\ude00""#);
        assert_eq!(written(&[r#""\ude00""#, r#""\ud83d""#]), r#""\ude00\ud83d""#);
        assert_eq!(written(&[r#""\ud83d\ud83d""#, r#""\ude00\ude00""#]), r#""\ud83d😀\ude00""#);
        assert_eq!(written(&[r#""\"\\\n\u0001\u00fc\ud83d\ude00é""#]), r#""\"\\\n\u0001ü😀é""#);
    }

    #[test]
    fn elsewhere_a_lone_half_is_replaced() {
        assert_eq!(Wtf8::of(r#""\ud83dx\ude00""#).expect("a string").into_string(), "\u{fffd}x\u{fffd}");
        assert_eq!(value(r#"{"a\ud800":["\udc00","\ud83d\ude00","\\ud800"]}"#), {
            Some(serde_json::json!({"a\u{fffd}": ["\u{fffd}", "😀", "\\ud800"]}))
        });
        assert_eq!(value(r#"["\ud800""#), None);
        assert_eq!(Wtf8::of("7"), None);
        assert_eq!(Wtf8::of("[1]"), None);
    }
}

//! Canonical form of JSON: two texts mean the same exactly if their forms are equal.
//!
//! Members are in the order of their names, of a name that occurs twice the last one stays, strings are without
//! escapes, and numbers are written as digits and an exponent, however large they are: numbers that differ only beyond
//! the precision of a Rust number stay distinct, and `1`, `1.0` and `1e0` are equal.

use std::ops::Range;

use memchr::memchr2;

use super::text::Wtf8;

/// Appends the form of a message, which must be valid JSON; for any other text the output is arbitrary. The form is
/// without the `id`, and without members that read as absent if they are `null`.
pub(super) fn write_message(json: &str, out: &mut Vec<u8>) {
    let mut reader = Reader { text: json, at: 0 };
    if reader.next() == Some(b'{') {
        reader.object(out, |name, value| {
            name == b"id" || value == b"null" && [&b"content"[..], b"toolCalls", b"subagentRunId"].contains(&name)
        });
    }
}

/// True if two JSON texts have the same value, whatever the order of their members and the form of their numbers. Both must
/// be valid and not deep.
pub fn is_same_value(one: &str, other: &str) -> bool {
    let form = |text| {
        let mut form = Vec::new();
        Reader { text, at: 0 }.value(&mut form);
        form
    };
    one == other || form(one) == form(other)
}

/// True if all numbers of a JSON value keep their value when they are read into a tree and written again.
pub(super) fn numbers_are_kept(json: &str) -> bool {
    let mut reader = Reader { text: json, at: 0 };
    while let Some(byte) = reader.peek() {
        match byte {
            b'"' => drop(reader.string()),
            b'-' | b'0'..=b'9' => {
                if !is_kept(reader.token()) {
                    return false;
                }
            }
            _ => reader.at += 1,
        }
    }
    true
}

/// Ranges of the numbers in a JSON value that are beyond a double, such as `1e400`.
pub(super) fn beyond_doubles(json: &str) -> Vec<Range<usize>> {
    let mut reader = Reader { text: json, at: 0 };
    let mut found = Vec::new();
    while let Some(byte) = reader.peek() {
        match byte {
            b'"' => drop(reader.string()),
            b'-' | b'0'..=b'9' => {
                let start = reader.at;
                if is_beyond(reader.token()) {
                    found.push(start..reader.at);
                }
            }
            _ => reader.at += 1,
        }
    }
    found
}

fn is_beyond(number: &str) -> bool {
    // `1e309` is the shortest such number.
    number.len() > 4 && number.parse().is_ok_and(f64::is_infinite)
}

fn is_kept(number: &str) -> bool {
    if number.len() <= 15 && number.bytes().all(|byte| byte.is_ascii_digit()) {
        return true;
    }
    let Ok(read) = serde_json::from_str::<serde_json::Value>(number) else { return false };
    let (mut before, mut after) = (Vec::new(), Vec::new());
    write_number(number, &mut before);
    write_number(&read.to_string(), &mut after);
    before == after
}

/// Writes a number as sign, digits without zeros at either end, and the power of ten that they are multiplied with.
fn write_number(number: &str, out: &mut Vec<u8>) {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return out.push(b'0');
    }
    let zeros = digits.len() - digits.trim_end_matches('0').len();
    out.extend_from_slice(sign.as_bytes());
    out.extend_from_slice(significant.as_bytes());
    out.push(b'e');
    match exponent.trim_start_matches('+').parse::<i64>() {
        Ok(exponent) => {
            let exponent = exponent.saturating_sub(fraction.len() as i64).saturating_add(zeros as i64);
            out.extend_from_slice(exponent.to_string().as_bytes());
        }
        // No client can mean such an exponent; the same text is the same number.
        Err(_) => out.extend_from_slice(number.as_bytes()),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Next byte that is not blank.
    fn next(&mut self) -> Option<u8> {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
        self.peek()
    }

    /// String token that begins here.
    fn string(&mut self) -> &'a str {
        let start = self.at;
        self.at += 1;
        loop {
            let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
            match memchr2(b'"', b'\\', rest) {
                Some(at) if rest[at] == b'"' => {
                    self.at += at + 1;
                    break;
                }
                Some(at) => self.at += at + 2,
                None => {
                    self.at += rest.len();
                    break;
                }
            }
        }
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Number or word that begins here.
    fn token(&mut self) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn value(&mut self, out: &mut Vec<u8>) {
        match self.next() {
            Some(b'{') => self.object(out, |_, _| false),
            Some(b'[') => self.array(out),
            Some(b'"') => write_string(&Wtf8::of(self.string()).unwrap_or_default(), out),
            Some(b'-' | b'0'..=b'9') => write_number(self.token(), out),
            Some(byte) if byte.is_ascii_alphabetic() => out.extend_from_slice(self.token().as_bytes()),
            _ => {}
        }
    }

    fn array(&mut self, out: &mut Vec<u8>) {
        out.push(b'[');
        self.at += 1;
        while let Some(byte) = self.next().filter(|byte| *byte != b']') {
            let before = self.at;
            if byte == b',' {
                self.at += 1;
                continue;
            }
            self.value(out);
            out.push(b',');
            if self.at == before {
                break;
            }
        }
        self.at += 1;
        out.push(b']');
    }

    fn object(&mut self, out: &mut Vec<u8>, is_left_out: fn(&[u8], &[u8]) -> bool) {
        let mut members: Vec<(Wtf8<'a>, Vec<u8>)> = Vec::new();
        self.at += 1;
        while let Some(byte) = self.next().filter(|byte| *byte != b'}') {
            match byte {
                b',' => self.at += 1,
                b'"' => {
                    let name = Wtf8::of(self.string()).unwrap_or_default();
                    self.next();
                    self.at += 1;
                    let mut value = Vec::new();
                    self.value(&mut value);
                    members.push((name, value));
                }
                _ => break,
            }
        }
        self.at += 1;
        // The sort is stable: of a name that occurs twice the last one stays last.
        members.sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
        out.push(b'{');
        for (at, (name, value)) in members.iter().enumerate() {
            let is_last = members.get(at + 1).is_none_or(|next| next.0 != *name);
            if is_last && !is_left_out(name.as_bytes(), value) {
                write_string(name, out);
                out.extend_from_slice(value);
                out.push(b',');
            }
        }
        out.push(b'}');
    }
}

/// Writes a string with its length before it, so that its end is known whatever it holds.
fn write_string(text: &Wtf8<'_>, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(text.as_bytes().len().to_string().as_bytes());
    out.push(b':');
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(json: &str) -> Vec<u8> {
        let mut out = Vec::new();
        Reader { text: json, at: 0 }.value(&mut out);
        out
    }

    #[test]
    fn equal_values_have_one_form() {
        for same in [
            &["1", "1.0", "1e0", "10e-1", "0.1E+1", " 1 "][..],
            &["0", "-0", "0.0", "0e9"],
            &["-150", "-1.5e2", "-1500e-1"],
            &["123456789012345678901234567890", "12345678901234567890123456789e1"],
            &[r#"{"a":1,"b":[2,{"c":null}]}"#, r#" { "b" : [ 2.0 , {"c":null} ] , "a" : 7, "\u0061" : 1 } "#],
            &[r#""é😀\ud800""#, r#""\u00e9\ud83d\ude00\ud800""#],
            &["[]", " [ ] "],
            &["{}", "{ }"],
            &["true", " true"],
        ] {
            for other in &same[1..] {
                assert_eq!(form(same[0]), form(other), "{} {other}", same[0]);
            }
        }
        let different = [
            "1",
            "-1",
            "10",
            "1.1",
            "9007199254740993",
            "9007199254740992",
            "1e400",
            "1e401",
            "\"1\"",
            "true",
            "null",
            "[1]",
            "[[1]]",
            "[1,1]",
            "[11]",
            "{}",
            "[]",
            r#"{"a":1}"#,
            r#"{"a":[1]}"#,
            r#"{"a":"1"}"#,
            r#"{"ab":1}"#,
            r#"["a","b"]"#,
            r#"["ab"]"#,
            r#"["a\",\"b"]"#,
            r#"{"a":1,"b":2}"#,
            r#"{"a":2,"b":1}"#,
            r#""\ud800""#,
            r#""\udc00""#,
        ];
        for (at, one) in different.iter().enumerate() {
            for other in &different[at + 1..] {
                assert_ne!(form(one), form(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn numbers_that_a_double_and_a_long_cannot_hold_are_found() {
        let kept = [
            "0",
            "-0.0",
            "1.50",
            "18446744073709551615",
            "-9223372036854775808",
            "0.1",
            "1e300",
            "1.7976931348623157e308",
            "5e-324",
        ];
        for kept in kept {
            assert!(numbers_are_kept(&format!(r#"{{"a":["9e999",{kept}]}}"#)), "{kept}");
        }
        for lost in
            ["18446744073709551616", "123456789012345678901234567890", "0.12345678901234567890123", "1e999", "1e-999"]
        {
            assert!(!numbers_are_kept(&format!(r#"{{"a":["\"",{lost}]}}"#)), "{lost}");
        }
    }

    #[test]
    fn numbers_beyond_a_double_are_found_where_they_stand() {
        for (text, expected) in [
            ("1e400", &["1e400"][..]),
            (r#"{"a":[1e308,-1e309, 2.5E+999 ],"1e400":"1e400"}"#, &["-1e309", "2.5E+999"]),
            ("[1,1e-400,18446744073709551616,true,null]", &[]),
        ] {
            let found: Vec<_> = beyond_doubles(text).into_iter().map(|place| &text[place]).collect();
            assert_eq!(found, expected, "{text}");
        }
        let digits = format!("[{}]", "9".repeat(400));
        assert_eq!(beyond_doubles(&digits).first(), Some(&(1..401)));
    }

    #[test]
    fn invalid_json_in_canonical_form_does_no_harm() {
        for text in [
            "",
            "[",
            "{",
            "{\"a",
            "{\"a\"",
            "{\"a\":",
            "[1,",
            "\"\\",
            "{1}",
            "[}]",
            "}",
            "{\"é\":é}",
            "[é]",
            "-",
            "[\"é\\",
        ] {
            form(text);
            numbers_are_kept(text);
            beyond_doubles(text);
        }
    }
}

//! Text for a terminal.
//!
//! Names and events are untrusted input: control characters, which a terminal obeys, and bidirectional marks, which
//! reorder text, are escaped.

use std::io::Write;

/// Writes a message for the user to stderr, apart from the output.
pub(super) fn note(text: &str) {
    // No channel is left for a message if stderr is closed.
    drop(writeln!(std::io::stderr(), "{}", shown(text, usize::MAX)));
}

/// `text` on one line, with control characters escaped, cut to `width` characters.
pub(super) fn shown(text: &str, width: usize) -> String {
    let mut line = String::with_capacity(text.len().min(256));
    for (at, c) in text.chars().enumerate() {
        if at >= width {
            line.pop();
            line.push('…');
            break;
        }
        match c {
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => {
                line.extend(c.escape_unicode());
            }
            c if c.is_control() => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    line
}

/// Shortens a long id to its end: ids that are ordered by time differ there.
pub(super) fn short_id(id: &str) -> String {
    const WIDTH: usize = 12;
    let length = id.chars().count();
    if length <= WIDTH {
        return shown(id, WIDTH);
    }
    let end: String = id.chars().skip(length + 1 - WIDTH).collect();
    format!("…{}", shown(&end, WIDTH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_that_it_would_obey() {
        assert_eq!(shown("a\u{1b}[31m\nb\u{202e}c\u{9b}", 99), "a\\u{1b}[31m\\nb\\u{202e}c\\u{9b}");
        assert_eq!(shown("héllo", 5), "héllo");
        assert_eq!(shown("héllos", 5), "héll…");
    }

    #[test]
    fn long_ids_keep_their_end() {
        assert_eq!(short_id("run-1"), "run-1");
        assert_eq!(short_id("019aa5d3-0000-7000-8000-00c0ffee1234"), "…0c0ffee1234");
    }
}

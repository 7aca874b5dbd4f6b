//! Plain text of messages, without markup: Markdown, HTML, links, mentions, code.

use super::words::{is_invisible, is_picture, is_treacherous};

/// Lines of a text, as plain text, without empty lines and code blocks.
pub(super) fn lines(text: &str) -> Vec<String> {
    let (mut lines, mut fence) = (Vec::new(), None);
    for line in text.lines() {
        let line = line.trim().trim_start_matches(['>', ' ']);
        let mark = ["```", "~~~"].into_iter().find(|mark| line.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => {
                // A fence that is opened and closed on one line starts no block.
                if !line[3..].contains(mark) {
                    fence = Some(mark);
                }
            }
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => lines.push(inline(unlisted(line))),
        }
    }
    lines.retain(|line| !line.is_empty());
    lines
}

/// Line without the marks of a heading or a list item.
fn unlisted(line: &str) -> &str {
    let line = line.trim_start_matches('#').trim_start();
    let line = match line.split_once(' ') {
        Some(("-" | "*" | "+" | "•", rest)) => rest,
        Some((number, rest)) if is_number(number) => rest,
        _ => line,
    };
    // Check box of a task list.
    ["[ ]", "[x]", "[X]"].iter().find_map(|mark| line.strip_prefix(mark)).unwrap_or(line)
}

/// True if the word numbers an item: `1.`, `2)`.
fn is_number(word: &str) -> bool {
    let digits = word.strip_suffix(['.', ')']).unwrap_or_default();
    (1..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Line without its inline marks.
pub(super) fn inline(line: &str) -> String {
    let text = without_tags(&without_links(line));
    let text: String = text
        .chars()
        .filter(|c| !matches!(c, '*' | '`') && !is_invisible(*c))
        .map(|c| if is_treacherous(c) || is_picture(c) || c == '\u{200d}' && !text.is_ascii() { ' ' } else { c })
        .collect();
    text.replace("~~", "").split_whitespace().filter_map(word).collect::<Vec<_>>().join(" ")
}

/// Word without the marks around it; none if it is an address or a mention.
fn word(word: &str) -> Option<String> {
    let inner = word.trim_matches(|c: char| "_\"'()[]{},.;:!?".contains(c));
    let lower = inner.to_lowercase();
    let is_address = lower.contains("://")
        || ["www.", "mailto:", "data:"].iter().any(|scheme| lower.starts_with(scheme) && lower.len() > scheme.len())
        || inner.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.'));
    let is_mention = inner.len() > 1 && inner.starts_with('@');
    if is_address || is_mention {
        // An address or mention is dropped.
        return None;
    }
    let word = word.trim_matches('_');
    let word = word.strip_prefix('#').filter(|rest| !rest.is_empty()).unwrap_or(word);
    Some(word.to_owned()).filter(|word| !word.is_empty())
}

/// Replaces `[text](address)` with the text, and removes `![text](address)`.
fn without_links(line: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(line.len()), line);
    while let Some(start) = rest.find('[') {
        let Some((text, after)) = rest[start + 1..].split_once("](") else { break };
        let Some(end) = after.find(')') else { break };
        if text.contains('[') {
            // The link begins later.
            out.push_str(&rest[..=start]);
            rest = &rest[start + 1..];
            continue;
        }
        match rest[..start].strip_suffix('!') {
            Some(before) => out.push_str(before),
            None => {
                out.push_str(&rest[..start]);
                out.push_str(text);
            }
        }
        rest = &after[end + 1..];
    }
    out + rest
}

/// Removes tags, comments, and addresses in angle brackets; a `<` between numbers stays.
fn without_tags(line: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(line.len()), line);
    while let Some(start) = rest.find('<') {
        let inside = &rest[start + 1..];
        let end = inside.find(['<', '>']).filter(|end| inside[*end..].starts_with('>'));
        let opens = inside.starts_with(|c: char| c.is_ascii_alphabetic() || "/!@#?".contains(c));
        out.push_str(&rest[..start]);
        match end.filter(|_| opens) {
            Some(end) => {
                out.push(' ');
                rest = &inside[end + 1..];
            }
            None => {
                out.push('<');
                rest = inside;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_goes_and_words_stay() {
        for (text, expected) in [
            ("", &[] as &[&str]),
            ("plain", &["plain"]),
            ("# A *heading* with `code`", &["A heading with code"]),
            ("- [ ] buy **milk**\n2. buy ~~bread~~ _eggs_", &["buy milk", "buy bread eggs"]),
            ("> quoted\n>> twice", &["quoted", "twice"]),
            ("before\n```rust\nfn main() {}\n```\nafter", &["before", "after"]),
            ("before\n~~~\n```\ncode\n~~~\nafter", &["before", "after"]),
            ("```\nnever closed", &[]),
            ("```x```\nnext", &["next"]),
            ("see [the docs](https://x.test/a) and ![a cat](c.png) here", &["see the docs and here"]),
            ("an [open bracket and a (word)", &["an [open bracket and a (word)"]),
            ("read https://x.test/a?b=c, www.x.test and ftp://x now", &["read and now"]),
            ("write to ann@example.com or @bob", &["write to or"]),
            ("<b>bold</b> <!-- no --> <https://x.test> <@U123> hi", &["bold hi"]),
            ("is 3 < 4 and 5 > 2?", &["is 3 < 4 and 5 > 2?"]),
            ("a <script>alert(1)</script> b", &["a alert(1) b"]),
            ("snake_case and __bold__ #topic", &["snake_case and bold topic"]),
            ("smile 😀 heart ❤️ flag 🇩🇪 end", &["smile heart flag end"]),
            ("a\u{202e}b\u{0007}c\u{200b}d\u{feff}", &["a b cd"]),
            ("می\u{200c}خواهم", &["می\u{200c}خواهم"]),
        ] {
            assert_eq!(lines(text), expected, "{text}");
        }
    }
}

//! Words of names, in any script.

use std::cmp::Ordering;

use threadline_core::limits::{
    MAX_NAME_BYTES, NAME_CHARACTER_BYTES, NAME_CHARACTERS, NAME_CLAUSE_WORDS, NAME_COLUMNS, NAME_WORD_CHARACTERS,
    NAME_WORDS,
};
use unicode_segmentation::UnicodeSegmentation;

use super::greetings::{self, DANGLING};

/// Most bytes of a phrase; the rest is for an ellipsis and the marks of a question.
const NAME_BYTES: usize = MAX_NAME_BYTES - 8;

/// Parts that a Chinese or Japanese character counts; another character in a word without spaces counts one part.
const CHARACTER: usize = 2;
/// Parts that a word counts.
const WORD: usize = CHARACTER * NAME_WORD_CHARACTERS;

/// Consecutive characters that may be a piece of a word, at the end of a cut text without spaces.
const PIECE: usize = NAME_WORD_CHARACTERS;

/// Dangling particles at the end of a cut Japanese or Chinese text.
const PARTICLES: &[char] = &['の', 'を', 'に', 'は', 'が', 'と', 'で', 'へ', 'も', 'や', 'な', '的', '和', '與', '与'];

/// Beginning of a text, at most `bytes` bytes, cut between characters.
pub(super) fn start(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let end = text.grapheme_indices(true).map(|(at, _)| at).take_while(|at| *at <= bytes).last().unwrap_or(0);
    &text[..end]
}

/// True if a character is of a script that has no spaces between words.
pub(super) fn is_spaceless(c: char) -> bool {
    matches!(c,
        // Thai, Lao; Myanmar; Khmer
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        // Radicals, kana, Han
        | '\u{2e80}'..='\u{2fdf}' | '\u{3005}'..='\u{3007}' | '\u{3041}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}'
        | '\u{20000}'..='\u{3ffff}')
}

/// True if a text contains letters or digits.
pub(super) fn is_word(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

/// Words of a text, separated by spaces, and symbols between them like `+`; without decoration.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_shown = |word: &&str| is_word(word) || word.chars().any(|c| c.is_ascii_punctuation() && !is_mark(c));
    text.split_whitespace().filter(is_shown)
}

fn parts(word: &str) -> usize {
    if !is_word(word) {
        return 0;
    }
    if !word.contains(is_spaceless) {
        return WORD;
    }
    word.graphemes(true).map(character_parts).sum()
}

/// Parts of a character: a Chinese or Japanese one is a syllable or more, a Thai or related one a letter.
fn character_parts(character: &str) -> usize {
    if character.starts_with(|c| is_spaceless(c) && c >= '\u{2e80}') { CHARACTER } else { 1 }
}

/// Number of words that a text counts, rounded up.
pub(super) fn count(text: &str) -> usize {
    words(text).map(parts).sum::<usize>().div_ceil(WORD)
}

/// At most [`NAME_WORDS`] words of a text, cut between words or characters, without a dangling word at the end.
pub(super) fn cut(text: &str) -> String {
    let (mut name, mut room, mut characters) = (String::new(), WORD * NAME_WORDS, NAME_CHARACTERS);
    let mut is_cut = false;
    for word in words(text).skip_while(|word| !is_word(word)) {
        let is_spaced = !word.contains(is_spaceless);
        let length = word.graphemes(true).count() + usize::from(!name.is_empty());
        let fits = parts(word) <= room && length <= characters;
        // A piece of a word is meaningful in a script without spaces; in other scripts it is used only if it is the
        // first.
        if !fits && !name.is_empty() && (is_spaced || room < WORD || characters < WORD) {
            is_cut = true;
            break;
        }
        if !name.is_empty() {
            name.push(' ');
            characters -= 1;
        }
        for character in word.graphemes(true).filter(|character| character.len() <= NAME_CHARACTER_BYTES) {
            let cost = if is_spaced { 0 } else { character_parts(character) };
            if cost > room || characters == 0 {
                is_cut = true;
                break;
            }
            (room, characters) = (room - cost, characters - 1);
            name.push_str(character);
        }
        if is_cut {
            break;
        }
        if is_spaced {
            room = room.saturating_sub(parts(word));
        }
    }
    if is_cut {
        drop_dangling(&mut name);
    }
    tidy(&name).to_owned()
}

/// Shortens a text to a name: all of it if it fits into [`NAME_COLUMNS`]; else its beginning up to the end of a clause
/// or, with an ellipsis, of a word. Returns true if the name is the complete text.
pub(super) fn phrase(text: &str) -> (String, bool) {
    let (mut name, mut columns, mut is_cut) = (String::new(), 0, false);
    for word in words(text).skip_while(|word| !is_word(word)) {
        let characters = || word.graphemes(true).filter(|character| character.len() <= NAME_CHARACTER_BYTES);
        let space = usize::from(!name.is_empty());
        let bytes = characters().map(str::len).sum::<usize>() + space;
        let wide = characters().map(width).sum::<usize>() + space;
        let fits = columns + wide <= NAME_COLUMNS && name.len() + bytes <= NAME_BYTES;
        // A piece of a word is meaningful in a script without spaces; in other scripts it is used only if it is the
        // first.
        if !fits && !name.is_empty() && !word.contains(is_spaceless) {
            is_cut = true;
            break;
        }
        name.push_str(&" "[..space]);
        columns += space;
        for character in characters() {
            if columns + width(character) > NAME_COLUMNS || name.len() + character.len() > NAME_BYTES {
                is_cut = true;
                break;
            }
            columns += width(character);
            name.push_str(character);
        }
        if is_cut {
            break;
        }
    }
    if !is_cut {
        return (tidy(&name).to_owned(), true);
    }
    let clause = clause(&name);
    if count(clause) >= NAME_CLAUSE_WORDS {
        return (tidy(clause).to_owned(), false);
    }
    drop_dangling(&mut name);
    (format!("{}…", tidy(&name)), false)
}

/// Display width of a character, in columns.
fn width(character: &str) -> usize {
    if character.starts_with(|c| is_spaceless(c) && c >= '\u{2e80}') { 2 } else { 1 }
}

/// Text up to the last mark between clauses; empty if there is none.
fn clause(text: &str) -> &str {
    let ends = |(at, c): &(usize, char)| match c {
        ',' | ';' | ':' => text[at + 1..].starts_with(' '),
        '，' | '、' | '；' | '：' | '،' | '؛' | '—' | '–' => true,
        _ => false,
    };
    text.char_indices().rfind(ends).map_or("", |(at, _)| &text[..at])
}

fn drop_dangling(name: &mut String) {
    // Text after a particle near the end is most often the beginning of a word that was cut.
    let near = name.char_indices().rev().take(PIECE).last().map_or(0, |(at, _)| at);
    if let Some(at) = name[near..].rfind(PARTICLES)
        && name[..near + at].chars().count() > 2 * PIECE
    {
        name.truncate(near + at);
    }
    while name.chars().count() > 2 * PIECE && name.ends_with(PARTICLES) {
        name.pop();
    }
    while words(name).count() > 2 {
        let (rest, last) = name.rsplit_once(' ').unwrap_or_default();
        // The end of a clause is a good end.
        if is_word(last) && (rest.ends_with(',') || !is_dangling(last)) {
            break;
        }
        name.truncate(rest.len());
    }
}

fn is_dangling(word: &str) -> bool {
    let word = word.to_lowercase();
    greetings::of(DANGLING).any(|dangling| dangling == word)
}

/// Text without spaces at its ends, and without punctuation that neither begins nor ends a word.
pub(super) fn tidy(text: &str) -> &str {
    let mut rest = text;
    loop {
        let before = rest;
        rest = rest.trim_matches(|c: char| c.is_whitespace() || (is_mark(c) && !"()[]".contains(c)));
        for (open, close) in [('(', ')'), ('[', ']')] {
            rest = rest.trim_start_matches(close).trim_end_matches(open);
            let surplus = rest.matches(open).count().cmp(&rest.matches(close).count());
            // A bracket without its partner, or a pair around the complete text.
            match (rest.strip_prefix(open), rest.strip_suffix(close)) {
                (Some(inner), _) if surplus == Ordering::Greater => rest = inner,
                (_, Some(inner)) if surplus == Ordering::Less => rest = inner,
                (Some(inner), Some(_)) if is_around(rest, open, close) => {
                    rest = inner.strip_suffix(close).unwrap_or(inner)
                }
                _ => {}
            }
        }
        if rest == before {
            return rest;
        }
    }
}

/// True if the first bracket of a text is closed by its last character.
fn is_around(text: &str, open: char, close: char) -> bool {
    let mut depth = 0;
    let closed = text.char_indices().find(|(_, c)| {
        depth += i32::from(*c == open) - i32::from(*c == close);
        depth == 0
    });
    closed.is_some_and(|(at, c)| at + c.len_utf8() == text.len())
}

/// Punctuation of any script; not the symbols at the end of words like `C++`, `C#` or `50%`.
pub(super) fn is_mark(c: char) -> bool {
    (c.is_ascii_punctuation() && !"+#%$&@".contains(c))
        || matches!(
            c,
            '¡' | '¿' | '«' | '»' | '·' | '\u{055a}'
                ..='\u{055f}' | '،' | '؛' | '؟' | '۔' | '।' | '॥' | '๏' | '။' | '។'
        )
        || matches!(c, '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}' | '\u{3001}'..='\u{3003}')
        || matches!(c, '\u{3008}'..='\u{3011}' | '\u{3014}'..='\u{301f}' | '・' | '\u{fe30}'..='\u{fe4f}')
        || matches!(c, '\u{ff01}' | '\u{ff02}' | '\u{ff07}'..='\u{ff0a}' | '\u{ff0c}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff1f}')
        || matches!(c, '\u{ff3b}'..='\u{ff40}' | '\u{ff5b}'..='\u{ff65}')
}

/// True if a character is a picture, or a part of one.
pub(super) fn is_picture(c: char) -> bool {
    matches!(c, '\u{1f000}'..='\u{1faff}' | '\u{2300}'..='\u{23ff}' | '\u{2600}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{20e3}' | '\u{e0000}'..='\u{e007f}')
}

/// True if a character could disguise a name or break its line: controls, marks that change the direction of writing,
/// and code points without a character.
pub(super) fn is_treacherous(c: char) -> bool {
    (c.is_control() && !c.is_whitespace())
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}' | '\u{fff0}'..='\u{ffff}' | '\u{fdd0}'..='\u{fdef}')
        || matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}')
}

/// True if a character is invisible and can be dropped. Joiners inside words do not count.
pub(super) fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{00ad}' | '\u{061c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2060}'
            ..='\u{2064}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_words_or_characters() {
        for (text, expected) in [
            ("", ""),
            ("one", "one"),
            ("one two three four five", "one two three four five"),
            ("one two three four five six", "one two three four five"),
            // No dangling word remains at the end.
            ("plan a trip to the coast", "plan a trip"),
            ("eine Reise nach Gent und nach Brügge", "eine Reise nach Gent"),
            ("what is it", "what is it"),
            ("in of the to for and", "in of"),
            // Tokens that are not words.
            ("- one — two 😀 three … four", "one two three four"),
            ("来週の京都旅行の計画を立てるのを手伝ってください", "来週の京都旅行の計画を立てる"),
            ("如何用人工智能改进我们公司的客户服务流程", "如何用人工智能改进我们公司"),
            ("用 Python 写一个爬虫程序来下载所有的图片", "用 Python 写一个爬虫程序来下载所"),
            ("ช่วยวางแผนเที่ยวเชียงใหม่สามวันให้หน่อยได้ไหม", "ช่วยวางแผนเที่ยวเชียงใหม่สามวันให้หน่อ"),
            ("서울에서 부산까지 가는 가장 빠른 방법을 알려줘", "서울에서 부산까지 가는 가장 빠른"),
            ("Pythonで機械学習", "Pythonで機械学習"),
        ] {
            assert_eq!(cut(text), expected, "{text}");
        }
    }

    #[test]
    fn phrases_are_whole_or_end_where_a_clause_or_a_word_does() {
        let sixty = "a word of ten and a word of ten and a word of ten and so on!";
        for (text, expected) in [
            ("", ("", true)),
            ("How do I reset my password?", ("How do I reset my password", true)),
            (sixty, (&sixty[..59], true)),
            (
                "Book a flight to Oslo, two nights in a hotel near the harbour and a car",
                ("Book a flight to Oslo", false),
            ),
            (
                "Well, how do I restore the backup of last week into a database of its own",
                ("Well, how do I restore the backup of last week…", false),
            ),
            (
                "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
                ("Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunte…", false),
            ),
        ] {
            assert_eq!(phrase(text), (expected.0.to_owned(), expected.1), "{text}");
        }
        for part in ["a\u{301}", "क्षि", "👩‍👩‍👧‍👦", "ที่", "京"] {
            let (name, is_whole) = phrase(&format!("x{}", part.repeat(200)));
            let rest = name.strip_prefix('x').and_then(|name| name.strip_suffix('…')).expect("from its beginning");
            assert_eq!((rest.replace(part, ""), is_whole), (String::new(), false), "{name}");
            assert!(name.len() <= MAX_NAME_BYTES && name.graphemes(true).count() <= NAME_COLUMNS + 1, "{name}");
        }
    }

    #[test]
    fn no_character_is_torn_and_none_is_too_large() {
        let family = "👩‍👩‍👧‍👦";
        for part in ["a\u{301}", "क्षि", "\u{1100}\u{1161}\u{11a8}", family, "ที่"] {
            let name = cut(&format!("x{}", part.repeat(200)));
            let rest = name.strip_prefix('x').expect("from its beginning");
            assert_eq!(rest.replace(part, ""), "", "{name}");
            assert!(name.graphemes(true).count() <= NAME_CHARACTERS && name.len() > part.len(), "{name}");
        }
        let stacked = format!("z{} tower", "\u{301}".repeat(500));
        assert_eq!(cut(&stacked), "tower");
    }

    #[test]
    fn ends_are_tidied() {
        for (text, expected) in [
            ("  \"Trip to Ghent.\" ", "Trip to Ghent"),
            ("¿Qué es esto?", "Qué es esto"),
            ("「京都旅行」。", "京都旅行"),
            ("Learning C++", "Learning C++"),
            ("Learning C#!", "Learning C#"),
            ("Save 50%,", "Save 50%"),
            ("Rust (language)", "Rust (language)"),
            ("(a note)", "a note"),
            ("broken)", "broken"),
            ("(broken", "broken"),
            ("**bold**", "bold"),
            ("...", ""),
            ("((", ""),
            (")(", ""),
        ] {
            assert_eq!(tidy(text), expected, "{text}");
        }
    }

    #[test]
    fn words_are_counted_in_every_script() {
        for (text, expected) in
            [("", 0), ("one", 1), ("one two", 2), ("京", 1), ("京都旅行", 2), ("用 Python 写", 2), ("- !", 0)]
        {
            assert_eq!(count(text), expected, "{text}");
        }
    }
}

//! A name from what the user said first, in the user's own words.

use super::{
    phrases::{self, GREETINGS, REQUESTS},
    plain,
    words::{count, cut, is_mark, is_word, start, tidy, words},
};
use crate::domain::limits::NAMING_TEXT_BYTES;

/// The name; none if the message says nothing in words.
pub(super) fn name(message: &str) -> Option<String> {
    let lines = plain::lines(start(message, NAMING_TEXT_BYTES));
    let sentences: Vec<&str> = lines.iter().flat_map(|line| sentences(line)).filter(|one| is_word(one)).collect();
    let telling = sentences.iter().map(|sentence| ungreeted(sentence)).find(|sentence| count(sentence) > 1);
    let sentence = telling.or_else(|| sentences.first().copied())?;
    Some(capital(cut(to_the_point(sentence)))).filter(|name| is_word(name))
}

/// The sentences of a line.
fn sentences(line: &str) -> Vec<&str> {
    let (mut found, mut start) = (Vec::new(), 0);
    let mut characters = line.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        let ends = match c {
            '。' | '！' | '？' | '；' | '।' | '؟' => true,
            '!' | '?' | ';' | '…' => next.is_none_or(char::is_whitespace),
            // Not the one of `e.g.`, `z. B.` or `Dr.`
            '.' => next.is_none_or(char::is_whitespace) && last_word(&line[start..at]) > 3,
            _ => false,
        };
        if ends {
            let end = at + c.len_utf8();
            found.push(&line[start..end]);
            start = end;
        }
    }
    found.push(&line[start..]);
    found
}

fn last_word(text: &str) -> usize {
    text.split(|c: char| !c.is_alphanumeric()).next_back().unwrap_or_default().chars().count()
}

/// A sentence without the greeting in front of it.
fn ungreeted(sentence: &str) -> &str {
    let mut rest = sentence.trim();
    for (at, word) in sentence.split_whitespace().enumerate() {
        let bare = tidy(word).to_lowercase();
        // "Good question" is no greeting, and what follows one only greets somebody by name up to the comma.
        let is_one = is_greeting(&bare);
        if !is_one
            || (at == 0 && matches!(bare.as_str(), "good" | "all" | "tag" | "team" | "there") && !greets(sentence))
        {
            break;
        }
        rest = rest.strip_prefix(word).unwrap_or(rest).trim_start();
    }
    rest
}

fn is_greeting(word: &str) -> bool {
    phrases::of(GREETINGS).any(|greeting| greeting == word)
}

fn greets(sentence: &str) -> bool {
    sentence.split_whitespace().nth(1).is_some_and(|word| is_greeting(&tidy(word).to_lowercase()))
}

/// A sentence without the words that only ask for something; all of it if nothing else is left.
fn to_the_point(sentence: &str) -> &str {
    let mut rest = sentence;
    while let Some(shorter) =
        phrases::of(REQUESTS).filter_map(|request| without(rest, request)).min_by_key(|rest| rest.len())
    {
        if count(shorter) < 2 {
            break;
        }
        rest = shorter;
    }
    rest
}

/// What follows these words, if the text begins with them.
fn without<'a>(text: &'a str, beginning: &str) -> Option<&'a str> {
    let mut rest = text.trim_start_matches(|c: char| c.is_whitespace() || is_mark(c)).chars();
    for expected in beginning.chars() {
        let found = rest.next().map(|c| if c == '’' { '\'' } else { c })?;
        if found != expected && !found.to_lowercase().eq([expected]) {
            return None;
        }
    }
    let rest = rest.as_str();
    let is_whole = !beginning.is_ascii() && beginning.contains(super::words::is_spaceless);
    if !is_whole && rest.starts_with(char::is_alphanumeric) {
        return None;
    }
    Some(rest.trim_start_matches(|c: char| c == ',' || c.is_whitespace()))
}

/// With a capital in front, unless its first word has a form of its own, as `iPhone` has.
fn capital(name: String) -> String {
    let first = words(&name).next().unwrap_or_default();
    let is_plain = first.chars().all(|c| !c.is_uppercase() && !c.is_numeric() && c != '_');
    let mut characters = name.chars();
    let mut upper = characters.next().filter(|_| is_plain).map(char::to_uppercase).into_iter().flatten();
    match (upper.next(), upper.next()) {
        (Some(upper), None) => [upper].into_iter().chain(characters).collect(),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_users_own_words() {
        for (message, expected) in [
            // English
            ("Plan a trip to Ghent", "Plan a trip to Ghent"),
            ("Can you help me plan a trip to Ghent next week?", "Plan a trip to Ghent"),
            ("Hi there! Could you please write a poem about autumn leaves in Japan?", "Write a poem about autumn"),
            ("Hello, what is the best way to learn Rust?", "What is the best way"),
            ("hello", "Hello"),
            ("Hello!", "Hello"),
            ("good question: who invented the wheel", "Good question: who invented"),
            ("Please", "Please"),
            ("help me", "Help me"),
            ("iPhone won't start", "iPhone won't start"),
            ("I’d like to sell my old bike", "Sell my old bike"),
            ("Thanks. Now compare e.g. Rust and Go.", "Now compare e.g. Rust"),
            ("What is 2 + 2?", "What is 2 + 2"),
            ("Why is C++ so fast?!", "Why is C++ so fast"),
            // German
            ("Kannst du mir bitte eine Reise nach Gent planen?", "Eine Reise nach Gent planen"),
            ("Hallo! Wie backe ich ein gutes Sauerteigbrot?", "Wie backe ich ein gutes"),
            ("Ich möchte Urlaub in Österreich machen", "Urlaub in Österreich machen"),
            // Others with spaces
            ("Peux-tu écrire un poème sur la mer ?", "Écrire un poème"),
            ("¿Puedes explicar la fotosíntesis?", "Explicar la fotosíntesis"),
            ("Как приготовить настоящий борщ дома?", "Как приготовить настоящий борщ дома"),
            ("كيف أتعلم اللغة العربية بسرعة؟", "كيف أتعلم اللغة العربية بسرعة"),
            ("서울 여행 계획을 세워줘", "서울 여행 계획을 세워줘"),
            // Without spaces
            ("请帮我写一首关于秋天的诗。谢谢！", "写一首关于秋天的诗"),
            ("来週の京都旅行の計画を立てるのを手伝ってください", "来週の京都旅行の計画を立てる"),
            ("こんにちは。東京の天気は?", "東京の天気は"),
            ("ประเทศไทยมีกี่จังหวัด", "ประเทศไทยมีกี่จังหวัด"),
            // Markup and what is no word
            ("# Bug report\n\nThe app crashes", "Bug report"),
            ("```rust\nfn main() {}\n```\nwhy does this not compile?", "Why does this not compile"),
            ("https://x.test/a\nsummarize this page", "Summarize this page"),
            ("@bot **urgent**: fix the login page", "Urgent: fix the login page"),
            ("😀😀 party ideas 🎉", "Party ideas"),
            ("\u{202e}evil\u{0000} text here", "Evil text here"),
        ] {
            assert_eq!(name(message).as_deref(), Some(expected), "{message}");
        }
    }

    #[test]
    fn without_words_there_is_no_name() {
        for message in
            ["", "   \n\t", "!!!", "😀", "https://x.test/", "```\ncode\n```", "@bob", "![a](b)", "\u{200b}", "---"]
        {
            assert_eq!(name(message), None, "{message}");
        }
    }
}

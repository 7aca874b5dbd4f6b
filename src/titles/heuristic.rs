//! Name from the user's first message, in the user's own words.

use super::{
    greetings::{self, BEHIND_GREETINGS, GREETED, GREETINGS, REQUESTS},
    markup,
    words::{count, cut, is_mark, is_word, phrase, start, words},
};
use threadline_core::limits::NAMING_TEXT_BYTES;

/// Makes a name; none if the message contains no words, or only a greeting.
pub(super) fn name(message: &str) -> Option<String> {
    let lines = markup::lines(start(message, NAMING_TEXT_BYTES));
    let sentences: Vec<&str> = lines.iter().flat_map(|line| sentences(line)).filter(|one| is_word(one)).collect();
    let telling = sentences.iter().map(|sentence| ungreeted(sentence)).find(|sentence| count(sentence) > 1);
    // A sentence with little content, like `Bananas`, is used completely.
    let sentence = telling.or_else(|| sentences.iter().copied().find(|sentence| is_word(ungreeted(sentence))))?;
    let point = to_the_point(sentence);
    let (name, is_whole) = phrase(point);
    let name = Some(capital(name)).filter(|name| is_word(name))?;
    // `Reset my password` is no longer a question, although the user asked one.
    Some(if is_whole && point.len() == sentence.len() { asked(name, point) } else { name })
}

/// Adds the marks of a question to a name, if its sentence has them.
fn asked(name: String, sentence: &str) -> String {
    let mut ends = sentence.trim_end().chars().rev().take_while(|c| is_mark(*c));
    let Some(end) = ends.find(|c| "?？؟".contains(*c)) else { return name };
    let begin = sentence.trim_start().chars().next().filter(|c| *c == '¿');
    begin.into_iter().chain(name.chars()).chain([end]).collect()
}

/// Splits a line into sentences.
fn sentences(line: &str) -> Vec<&str> {
    let (mut found, mut start) = (Vec::new(), 0);
    let mut characters = line.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        let ends = match c {
            '。' | '！' | '？' | '；' | '।' | '؟' => true,
            '!' | '?' | ';' | '…' => next.is_none_or(char::is_whitespace),
            // Abbreviations such as `e.g.`, `z. B.` or `Dr.` do not end a sentence.
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

/// Name from a message that is only a greeting, used until there is a better one.
pub(super) fn greeting(message: &str) -> Option<String> {
    let lines = markup::lines(start(message, NAMING_TEXT_BYTES));
    let sentence = lines.iter().flat_map(|line| sentences(line)).find(|one| is_word(one))?;
    Some(capital(cut(sentence))).filter(|name| is_word(name))
}

/// True if the message is only a greeting.
pub(super) fn only_greets(message: &str) -> bool {
    is_word(message) && !is_word(ungreeted(start(message, NAMING_TEXT_BYTES)))
}

/// Text without the greetings in front of it.
fn ungreeted(text: &str) -> &str {
    let (mut rest, mut is_greeted) = (text, false);
    loop {
        let trimmed = rest.trim_start_matches(is_between);
        let greeted = greetings::of(GREETED).filter(|_| is_greeted);
        let shorter = greetings::of(GREETINGS).chain(greeted).filter_map(|phrase| behind_greeting(trimmed, phrase));
        let Some(shorter) = shorter.min_by_key(|rest| rest.len()) else {
            return if is_greeted { trimmed } else { text.trim() };
        };
        (rest, is_greeted) = (shorter, true);
    }
}

/// Text after a greeting, if `text` begins with one that is not part of a word like `hi-fi`.
fn behind_greeting<'a>(text: &'a str, greeting: &str) -> Option<&'a str> {
    let (greeting, needs_mark) = match greeting.strip_suffix(',') {
        Some(greeting) => (greeting, true),
        None => (greeting, false),
    };
    let rest = behind(text, greeting)?;
    let pauses = |text: &str| text.starts_with(|c: char| ",!?;".contains(c) || (is_mark(c) && !c.is_ascii()));
    let is_glued = rest.trim_start_matches(is_mark).starts_with(char::is_alphanumeric) && !pauses(rest);
    let after = rest.trim_start();
    let is_marked = after.is_empty() || after.starts_with('.') || pauses(after);
    let is_line = rest[..rest.len() - after.len()].contains('\n');
    let is_apart = is_line || !after.starts_with(char::is_alphanumeric) || begins_anew(after);
    (!is_glued && (is_marked || !needs_mark && is_apart)).then_some(rest)
}

/// True if the text begins with a new greeting or phrase, so that it is not part of the greeting before it.
fn begins_anew(text: &str) -> bool {
    let mut phrases = [GREETINGS, GREETED, BEHIND_GREETINGS, REQUESTS].into_iter().flat_map(greetings::of);
    phrases.any(|phrase| without(text, phrase.trim_end_matches(',')).is_some())
}

/// Sentence without words that only introduce a request; unchanged if too little would remain.
fn to_the_point(sentence: &str) -> &str {
    let mut rest = sentence;
    while let Some(shorter) =
        greetings::of(REQUESTS).filter_map(|request| without(rest, request)).min_by_key(|rest| rest.len())
    {
        if count(shorter) < 2 {
            break;
        }
        rest = shorter;
    }
    rest
}

/// Text after these words, if `text` begins with them.
fn without<'a>(text: &'a str, beginning: &str) -> Option<&'a str> {
    let rest = behind(text.trim_start_matches(is_between), beginning)?;
    let is_whole = !beginning.is_ascii() && beginning.contains(super::words::is_spaceless);
    if !is_whole && rest.starts_with(char::is_alphanumeric) {
        return None;
    }
    Some(rest.trim_start_matches(|c: char| c == ',' || c.is_whitespace()))
}

/// Text after `beginning`, compared without case. `beginning` must be in lower case.
fn behind<'a>(text: &'a str, beginning: &str) -> Option<&'a str> {
    let mut rest = text.chars();
    for expected in beginning.chars() {
        let found = match rest.next()? {
            '’' => '\'',
            // The lower case of İ is two characters, of which Turkish writes one.
            'İ' => 'i',
            c => c,
        };
        if found != expected && !found.to_lowercase().eq([expected]) {
            return None;
        }
    }
    Some(rest.as_str())
}

fn is_between(c: char) -> bool {
    c.is_whitespace() || is_mark(c)
}

/// Capitalizes the first letter, unless the first word has its own spelling, as `iPhone` has.
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
            ("Can you help me plan a trip to Ghent next week?", "Plan a trip to Ghent next week"),
            (
                "Hi there! Could you please write a poem about autumn leaves in Japan?",
                "Write a poem about autumn leaves in Japan",
            ),
            ("Hello, what is the best way to learn Rust?", "What is the best way to learn Rust?"),
            ("Hello world", "Hello world"),
            ("Hello Ann!", "Hello Ann"),
            ("Hello Kitty history", "Hello Kitty history"),
            ("HELLO WORLD in C", "HELLO WORLD in C"),
            ("Hai Phong travel", "Hai Phong travel"),
            ("Good day trading strategies", "Good day trading strategies"),
            ("hey jude chords", "Hey jude chords"),
            ("hi how do I bake bread", "How do I bake bread"),
            ("hello can you plan a trip to Ghent", "Plan a trip to Ghent"),
            ("hi 👋 bake bread", "Hi bake bread"),
            ("Hello. Bananas", "Bananas"),
            ("Good morning, all! Bananas?", "Bananas?"),
            ("Hi-fi speakers for a small room", "Hi-fi speakers for a small room"),
            ("hello.py does not start", "Hello.py does not start"),
            ("Morning routine for kids", "Morning routine for kids"),
            ("Morning! plan my day", "Plan my day"),
            ("Tag: release notes of May", "Tag: release notes of May"),
            ("Buenas prácticas de seguridad", "Buenas prácticas de seguridad"),
            ("Morning, how do I bake bread?", "How do I bake bread?"),
            ("good question: who invented the wheel", "Good question: who invented the wheel"),
            ("Please", "Please"),
            ("help me", "Help me"),
            ("iPhone won't start", "iPhone won't start"),
            ("I’d like to sell my old bike", "Sell my old bike"),
            ("Thanks. Now compare e.g. Rust and Go.", "Now compare e.g. Rust and Go"),
            ("What is 2 + 2?", "What is 2 + 2?"),
            ("Why is C++ so fast?!", "Why is C++ so fast?"),
            // Complete phrases; a longer text is cut at the end of one.
            ("How do I reset my password?", "How do I reset my password?"),
            ("¿Qué es esto?", "¿Qué es esto?"),
            ("reset my password!!", "Reset my password"),
            ("Could you reset my password?", "Reset my password"),
            // Phrases that look like a request, but are the subject.
            ("Can I cancel my order?", "Can I cancel my order?"),
            ("Will you marry me?", "Will you marry me?"),
            ("Let's Encrypt certificate expired", "Let's Encrypt certificate expired"),
            ("So Long and Thanks for All the Fish", "So Long and Thanks for All the Fish"),
            ("请假条怎么写", "请假条怎么写"),
            ("請款流程是什麼", "請款流程是什麼"),
            ("请问如何重置我的密码？", "如何重置我的密码"),
            (
                "My deployment to production fails each night, although nothing has changed since the last release",
                "My deployment to production fails each night",
            ),
            (
                "Compare the performance characteristics of Rust and Go in web servers under heavy load",
                "Compare the performance characteristics of Rust and Go…",
            ),
            (
                "如何用人工智能改进我们公司的客户服务流程，并且降低每个月的运营成本和人员开销呢",
                "如何用人工智能改进我们公司的客户服务流程",
            ),
            // German
            ("Kannst du mir bitte eine Reise nach Gent planen?", "Eine Reise nach Gent planen"),
            ("Hallo! Wie backe ich ein gutes Sauerteigbrot?", "Wie backe ich ein gutes Sauerteigbrot?"),
            ("Ich möchte Urlaub in Österreich machen", "Urlaub in Österreich machen"),
            // Other languages with spaces between words
            ("Peux-tu écrire un poème sur la mer ?", "Écrire un poème sur la mer"),
            ("¿Puedes explicar la fotosíntesis?", "Explicar la fotosíntesis"),
            ("Как приготовить настоящий борщ дома?", "Как приготовить настоящий борщ дома?"),
            ("كيف أتعلم اللغة العربية بسرعة؟", "كيف أتعلم اللغة العربية بسرعة؟"),
            ("서울 여행 계획을 세워줘", "서울 여행 계획을 세워줘"),
            // Languages without spaces
            ("请帮我写一首关于秋天的诗。谢谢！", "写一首关于秋天的诗"),
            ("来週の京都旅行の計画を立てるのを手伝ってください", "来週の京都旅行の計画を立てるのを手伝ってください"),
            ("こんにちは。東京の天気は?", "東京の天気は?"),
            ("こんにちは、東京の天気は?", "東京の天気は?"),
            ("你好，请帮我写一首诗", "写一首诗"),
            ("你好吗", "你好吗"),
            ("Γεια σας, πώς φτιάχνω ψωμί;", "Πώς φτιάχνω ψωμί"),
            ("İyi günler! Ekmek nasıl yapılır?", "Ekmek nasıl yapılır?"),
            ("ประเทศไทยมีกี่จังหวัด", "ประเทศไทยมีกี่จังหวัด"),
            // Markup, and tokens that are not words
            ("# Bug report\n\nThe app crashes", "Bug report"),
            ("```rust\nfn main() {}\n```\nwhy does this not compile?", "Why does this not compile?"),
            ("https://x.test/a\nsummarize this page", "Summarize this page"),
            ("@bot **urgent**: fix the login page", "Urgent: fix the login page"),
            ("😀😀 party ideas 🎉", "Party ideas"),
            ("\u{202e}evil\u{0000} text here", "Evil text here"),
        ] {
            assert_eq!(name(message).as_deref(), Some(expected), "{message}");
        }
    }

    #[test]
    fn a_greeting_makes_no_title() {
        for message in [
            "hello",
            "Hello!",
            "Hi there",
            "hey, hi!!",
            "**Good morning**, everyone.",
            "Hi 👋",
            "> Moin moin",
            "Guten Abend zusammen",
            "Morgen!",
            "Tag",
            "¡Hola! Buenas",
            "Bonjour à tous",
            "Bom dia",
            "Buongiorno",
            "Goedemorgen",
            "Hej",
            "Dzień dobry",
            "Ahoj",
            "Γεια σου",
            "ΓΕΙΑ",
            "Καλημέρα!",
            "Merhaba",
            "Selam",
            "Günaydın",
            "İYİ günler",
            "Привет!",
            "Добрый день",
            "Привіт",
            "السلام عليكم",
            "مرحبا",
            "שלום",
            "नमस्ते",
            "வணக்கம்",
            "Xin chào",
            "Selamat pagi",
            "สวัสดีครับ",
            "안녕하세요",
            "안녕!",
            "こんにちは",
            "こんにちは！",
            "おはようございます。",
            "你好",
            "您好！",
            "早上好，大家好",
            "嗨～",
        ] {
            assert_eq!(name(message), None, "{message}");
            assert!(only_greets(message), "{message}");
            let provisional = greeting(message).expect("a name");
            assert!(only_greets(&provisional), "{provisional}: a later run must know it again");
        }
        for message in
            ["Bananas", "Hi Ann", "Hi\n```\ncode\n```", "Good question", "team", "there", "Morgen früh", "", "😀", "!"]
        {
            assert!(!only_greets(message), "{message}");
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

//! Fuzz target: any text of a user or a model gives a valid name or none.

use threadline_core::limits::{MAX_NAME_BYTES, NAME_CHARACTERS, NAME_COLUMNS, NAME_WORDS};
use unicode_segmentation::UnicodeSegmentation;

use super::{
    heuristic, title,
    words::{count, is_treacherous, is_word},
};

/// Reads the text as a user's first message, and as a model's answer.
pub(crate) fn names(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (words, title) = (heuristic::name(text), title::name(text).ok());
    for name in [&words, &title].into_iter().flatten() {
        assert!(is_word(name) && name.trim() == name, "{name:?} of {text:?}");
        assert!(!name.chars().any(|c| is_treacherous(c) || c.is_control()), "{name:?} of {text:?}");
        assert!(name.len() <= MAX_NAME_BYTES || text.len() > MAX_NAME_BYTES, "{name:?}");
    }
    if let Some(name) = words {
        // In addition to the phrase: an ellipsis, or the marks of a question.
        assert!(name.graphemes(true).count() <= NAME_COLUMNS + 2, "{name:?} of {text:?}");
    }
    if let Some(name) = title {
        // A piece that has lost its particle may count as a complete word.
        let is_short = name.graphemes(true).count() <= NAME_CHARACTERS && count(&name) <= NAME_WORDS + 1;
        assert!(is_short, "{name:?} of {text:?}");
    }
}

//! Answers of models, and the names in them.

use super::*;

#[test]
fn names_are_found_in_what_models_say() {
    for (answer, expected) in [
        ("Trip to Ghent", "Trip to Ghent"),
        ("  Trip to Ghent.\n", "Trip to Ghent"),
        ("\"Trip to Ghent\"", "Trip to Ghent"),
        ("“Trip to Ghent.”", "Trip to Ghent"),
        ("'Trip to Ghent'", "Trip to Ghent"),
        ("«Voyage à Gand»", "Voyage à Gand"),
        ("„Reise nach Gent“", "Reise nach Gent"),
        ("「京都旅行の計画」", "京都旅行の計画"),
        ("《秋天的诗》", "秋天的诗"),
        ("**Trip to Ghent**", "Trip to Ghent"),
        ("# Trip to Ghent", "Trip to Ghent"),
        ("- Trip to Ghent", "Trip to Ghent"),
        ("`Trip to Ghent`", "Trip to Ghent"),
        ("***\"Trip to Ghent\"***", "Trip to Ghent"),
        ("Title: Trip to Ghent", "Trip to Ghent"),
        ("**Title:** \"Trip to Ghent\"", "Trip to Ghent"),
        ("TITLE: Title: Trip to Ghent", "Trip to Ghent"),
        ("Conversation name: Trip to Ghent", "Trip to Ghent"),
        ("Titel: Reise nach Gent", "Reise nach Gent"),
        ("タイトル：京都旅行", "京都旅行"),
        ("标题：秋天的诗", "秋天的诗"),
        ("Here is a name:\n\nTrip to Ghent", "Trip to Ghent"),
        ("Sure!\nTrip to Ghent", "Trip to Ghent"),
        ("Sure! Here is a title: Trip to Ghent", "Trip to Ghent"),
        ("Here's a short title for it: \"Trip to Ghent\"", "Trip to Ghent"),
        ("Certainly, title: Trip to Ghent", "Trip to Ghent"),
        ("Hier ist ein Titel: Reise nach Gent", "Reise nach Gent"),
        ("assistant: Trip to Ghent", "Trip to Ghent"),
        ("Sure, here is a title:\n**Trip to Ghent**", "Trip to Ghent"),
        ("Trip to Ghent\n\nThis name reflects the user's wish to go to Ghent.", "Trip to Ghent"),
        ("1. Trip to Ghent\n2. Ghent Weekend\n3. Belgian Cities", "Trip to Ghent"),
        ("{\"title\": \"Trip to Ghent\"}", "Trip to Ghent"),
        ("{\"name\":\"Trip to Ghent\",\"confidence\":0.9}", "Trip to Ghent"),
        ("```json\n{ \"title\": \"Trip to Ghent\" }\n```", "Trip to Ghent"),
        ("```\nTrip to Ghent\n```", "Trip to Ghent"),
        ("[\"Trip to Ghent\", \"Ghent\"]", "Trip to Ghent"),
        ("<think>The user wants a trip.\nSo…</think>\n\nTrip to Ghent", "Trip to Ghent"),
        ("The user wants a trip.</think>Trip to Ghent", "Trip to Ghent"),
        ("<thinking>hm</thinking><thinking>ha</thinking> Trip to Ghent", "Trip to Ghent"),
        ("🚀 Trip to Ghent 🎉", "Trip to Ghent"),
        ("Trip to Ghent ❤️", "Trip to Ghent"),
        ("Trip\u{200b} to\u{feff} Ghent\u{200e}", "Trip to Ghent"),
        ("Trip   to\tGhent", "Trip to Ghent"),
        ("How does TCP work?", "How does TCP work"),
        ("Learning C++ and C#", "Learning C++ and C#"),
        ("Unable to log in", "Unable to log in"),
        ("Als Kind in Berlin", "Als Kind in Berlin"),
        ("Sorry letter to landlord", "Sorry letter to landlord"),
        ("TLS 1.3 vs. TLS 1.2", "TLS 1.3 vs. TLS 1.2"),
        ("Photosynthese", "Photosynthese"),
        ("การท่องเที่ยวเชียงใหม่", "การท่องเที่ยวเชียงใหม่"),
        ("सात दिन की यात्रा", "सात दिन की यात्रा"),
        ("می\u{200c}خواهم سفر کنم", "می\u{200c}خواهم سفر کنم"),
        // A slightly long name is cut, without a dangling word at its end.
        ("Planning a Three Day Trip to Ghent", "Planning a Three Day Trip"),
        ("Planning the Best Trip to the Coast", "Planning the Best Trip"),
    ] {
        assert_eq!(name(answer).as_deref(), Ok(expected), "{answer}");
    }
}

#[test]
fn invalid_titles_are_refused() {
    for (answer, flaw) in [
        ("", TitleError::Empty),
        (" \n\t ", TitleError::Empty),
        ("...", TitleError::Empty),
        ("\"\"", TitleError::Empty),
        ("**", TitleError::Empty),
        ("😀😀", TitleError::Empty),
        ("<think>I wonder", TitleError::Empty),
        ("<think>done</think>", TitleError::Empty),
        ("I'm sorry, but I can't help with that.", TitleError::Refusal),
        ("I’m sorry, I can’t assist with that request.", TitleError::Refusal),
        ("Sorry, I can't do that", TitleError::Refusal),
        ("\"I cannot comply.\"", TitleError::Refusal),
        ("Title: I cannot name this", TitleError::Refusal),
        ("As an AI language model, I", TitleError::Refusal),
        ("Unfortunately I have no idea", TitleError::Refusal),
        ("Es tut mir leid, das geht nicht", TitleError::Refusal),
        ("Je suis désolé", TitleError::Refusal),
        ("Lo siento, no puedo", TitleError::Refusal),
        ("申し訳ありませんが", TitleError::Refusal),
        ("抱歉，我无法", TitleError::Refusal),
        ("죄송합니다", TitleError::Refusal),
        ("Error: model overloaded", TitleError::Refusal),
        ("Untitled", TitleError::Generic),
        ("\"New Chat\"", TitleError::Generic),
        ("Title:", TitleError::Generic),
        ("null", TitleError::Generic),
        ("N/A", TitleError::Generic),
        ("Sure!", TitleError::Generic),
        ("[object Object]", TitleError::Generic),
        ("無題", TitleError::Generic),
        ("The user wants to go", TitleError::Generic),
        ("This conversation is about Ghent", TitleError::Generic),
        ("How can I help you today?", TitleError::Generic),
        ("aaaaaaaaaaaaaaaa", TitleError::Generic),
        ("Ghent is a lovely city in Belgium with many canals and old houses.", TitleError::TooLong),
        ("Let us plan it. First we need dates.", TitleError::TooLong),
        ("来週の京都旅行の計画を立てるのを手伝ってくださいとお願いされました", TitleError::TooLong),
        ("<b>Trip to Ghent</b>", TitleError::Markup),
        ("<script>alert(1)</script>", TitleError::Markup),
        ("<|im_start|>assistant", TitleError::Markup),
        ("{\"name\":\"get_weather\",\"arguments\":{}}", TitleError::Markup),
        ("{\"answer\": 42}", TitleError::Markup),
        ("{\"title\": 42}", TitleError::Markup),
        ("{\"title\": \"cut off", TitleError::Markup),
        ("[1, 2]", TitleError::Markup),
        ("See https://evil.test/x", TitleError::Markup),
        ("Trip \u{202e}tnehG", TitleError::Characters),
        ("Trip \u{2066}to\u{2069} Ghent", TitleError::Characters),
        ("Trip\u{0007} to Ghent", TitleError::Characters),
        ("Trip\u{0000}", TitleError::Characters),
        ("Trip to \u{fffd}", TitleError::Characters),
        ("Trip \u{e000}", TitleError::Characters),
        ("Answer with the name alone", TitleError::Echo),
    ] {
        assert_eq!(name(answer), Err(flaw), "{answer}");
    }
}

#[test]
fn endless_answers_cost_little() {
    let nested = "(\"".repeat(200) + "Trip to Ghent" + &"\")".repeat(200);
    assert_eq!(name(&nested).as_deref(), Ok("Trip to Ghent"));
    let long = "word ".repeat(10_000);
    assert_eq!(name(&long), Err(TitleError::TooLong));
    let labels = "Title: ".repeat(200) + "Trip to Ghent";
    assert_eq!(name(&labels).as_deref(), Ok("Trip to Ghent"));
    assert_eq!(name(&"xy".repeat(500)), Err(TitleError::TooLong));
    for open in ["(", ")", "[", "{", "\"", "<", "#", "<think>", "Title:", "1. "] {
        assert!(name(&open.repeat(30_000)).is_err(), "{open}");
    }
}

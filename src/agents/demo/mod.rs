//! Demo agent, without a model and without any network: shows every event that a front end must be able to render.
//!
//! The behaviour depends on the input alone, except for ids, which are new each time. The message "help" lists the
//! demo's keywords.

mod arguments;
mod plan;
mod said;
mod script;
#[cfg(test)]
mod tests;

use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::json;

use self::{
    plan::Plan,
    said::{Resume, Said, Tool, ToolResult},
    script::{Ending, Script, Scripted},
};
use super::{
    events,
    source::{EventStream, RunInput},
};

/// Sentences of the long answer, each about 15 tokens.
const LONG_SENTENCES: usize = 130;

/// Runs the demo: a complete AG-UI run. `pace` is the pause before each token.
pub fn run(input: &RunInput, pace: Duration) -> EventStream {
    let events = stream::iter(write(input)).then(move |Scripted { event, paced }| async move {
        if paced && !pace.is_zero() {
            tokio::time::sleep(pace).await;
        }
        Ok(event)
    });
    events.boxed()
}

fn write(input: &RunInput) -> Vec<Scripted> {
    let said = Said::read(input);
    let mut script = Script::new(input, &said.text);
    let ending = if !said.resume.is_empty() {
        go_on(&mut script, &said.resume, &input.state)
    } else if !said.results.is_empty() {
        comment(&mut script, &said.results)
    } else if let Some(tool) = said.tool() {
        call(&mut script, tool, &said)
    } else if said.has("approve") {
        ask(&mut script, &said, &input.state)
    } else if said.has("error") {
        fail(&mut script, &said)
    } else if said.has("long") {
        answer_at_length(&mut script)
    } else if said.has("help") {
        help(&mut script, &said.tools)
    } else {
        answer(&mut script, &said, &input.state)
    };
    script.end(ending)
}

/// Default answer: reasoning, a plan, a tool of the agent's own, and a text.
fn answer(script: &mut Script, said: &Said, state: &str) -> Ending {
    let (words, characters, longest) = said.counts();
    let noun = if words == 1 { "word" } else { "words" };
    let quote = said.quote();
    let mut plan = Plan::go_on(state, &["Understand the message", "Count its words", "Answer"]);
    script.push(&plan.snapshot());
    script.step("Thinking", |script| {
        script.think(&format!(
            "The user said: \"{quote}\"\nI am a demo without a model, so I cannot know what it means. But I can count its \
             words, and show what an answer looks like."
        ));
    });
    script.push(&plan.done(0));
    script.step("Counting", |script| {
        let call = script.call("count_words", &json!({ "text": quote }), None);
        script.result(&call, &json!({ "words": words, "characters": characters, "longest": longest }));
    });
    script.push(&plan.done(1));
    script.step("Answering", |script| {
        script.say(&format!(
            "You said:\n\n> {quote}\n\nThat is **{words} {noun}** in {characters} characters; the longest is \
             **{longest}**.\n\nOn the way here you have seen:\n\n- *reasoning*, which can be folded away\n- a **plan** in \
             the state, which grows with every run\n- a call of my tool `count_words`, with its result\n\nAnd this is \
             code:\n\n```js\nconst words = text.split(/\\s+/).length;\nconsole.log(`${{words}} words`);\n```\n\nSay \
             **help** to see what else I can do.\n"
        ));
    });
    script.push(&plan.done(2));
    Ending::Done
}

/// Ends in an interrupt; the run that resumes it continues in [`go_on`].
fn ask(script: &mut Script, said: &Said, state: &str) -> Ending {
    let mut plan = Plan::go_on(state, &["Ask for approval", "Publish the summary"]);
    script.push(&plan.snapshot());
    script.think("This needs the approval of a human. I stop here until I have it.");
    script.say(&format!("I have written a summary of what you said:\n\n> {}\n\nMay I publish it?", said.quote()));
    script.push(&plan.done(0));
    Ending::Interrupt(json!({
        "id": events::new_id(),
        "reason": "confirmation",
        "message": "Publish the summary?",
        "responseSchema": {
            "type": "object",
            "properties": { "approved": { "type": "boolean", "description": "Whether it may be published" } },
            "required": ["approved"],
        },
    }))
}

fn go_on(script: &mut Script, resume: &[Resume], state: &str) -> Ending {
    let mut plan = Plan::go_on(state, &[]);
    script.push(&plan.snapshot());
    script.think("There is the answer that I have been waiting for.");
    for answer in resume {
        let (text, done) = match answer {
            Resume::Approved => {
                ("Thank you! The summary is **published** (not really, this is a demo).".to_owned(), true)
            }
            Resume::Declined => ("Then I will **not** publish it.".to_owned(), false),
            Resume::Cancelled => ("You have **cancelled**, so I leave it as it is.".to_owned(), false),
            Resume::Other(payload) => {
                (format!("I asked for `approved` and got this instead, so I do nothing:\n\n> {payload}"), false)
            }
        };
        if let Some(delta) = plan.close_open_step(done) {
            script.push(&delta);
        }
        script.say(&text);
    }
    Ending::Done
}

/// Calls a tool of the frontend, and leaves its result to the frontend; the next run continues in [`comment`].
fn call(script: &mut Script, tool: &Tool, said: &Said) -> Ending {
    let arguments = arguments::example(&tool.parameters, &said.quote());
    script.think(&format!("The user names the tool {}, which the frontend has. I call it.", tool.name));
    let message = script.say(&format!("I call `{}`, which is yours to answer.", tool.name));
    Ending::Pending(vec![script.call(&tool.name, &arguments, Some(message))])
}

fn comment(script: &mut Script, results: &[ToolResult]) -> Ending {
    script.think("The frontend has answered.");
    for result in results {
        let tool = result.tool.as_ref().map_or("A tool".to_owned(), |name| format!("`{name}`"));
        script.say(&match result.content.as_str() {
            "" => format!("{tool} has answered without a word. I take that for a success."),
            content => format!("{tool} has answered:\n\n> {content}\n\nThank you!"),
        });
    }
    Ending::Done
}

/// Fails in the middle of a message.
fn fail(script: &mut Script, said: &Said) -> Ending {
    script.think("The user wants to see an error.");
    script.begin_saying(&format!("You said:\n\n> {}\n\nI was about to say something important, but", said.quote()));
    Ending::Error
}

/// Writes numbered sentences, so that a gap or a repetition is visible at once.
fn answer_at_length(script: &mut Script) -> Ending {
    const THINGS: [&str; 5] = [
        "leave for a while and come back, nothing will be missing here.",
        "close the window, I keep on writing whether you watch or not.",
        "open a second window, both of them will show the very same.",
        "cut the network, and watch how the rest arrives when it returns.",
        "stop me now, and what was written so far will stay.",
    ];
    script.think("The user wants a long answer, to see what happens to it on the way.");
    let mut text = format!("This answer has **{LONG_SENTENCES} sentences**, numbered so that none can get lost.\n");
    for number in 1..=LONG_SENTENCES {
        if number % 20 == 1 {
            text.push_str(&format!("\n## Sentences {number} to {}\n\n", (number + 19).min(LONG_SENTENCES)));
        }
        text.push_str(&format!("({number}) You may {} ", THINGS[number % THINGS.len()]));
    }
    text.push_str("\n\nThat was all.\n");
    script.say(&text);
    Ending::Done
}

fn help(script: &mut Script, tools: &[Tool]) -> Ending {
    script.think("The user wants to know what I can do.");
    let mut text =
        "I am the **demo agent**. Whatever you say, I think, plan, call a tool and answer. Some words do more:\n\n\
                    - **approve**: I ask for your approval and continue when I have it\n\
                    - **error**: I fail in the middle of a sentence\n\
                    - **long**: I write about 2,000 tokens\n\
                    - **help**: this list\n"
            .to_owned();
    for tool in tools {
        text.push_str(&format!("- **{}**: I call this tool of yours\n", tool.name));
    }
    if tools.is_empty() {
        text.push_str("\nIf your front end had tools, I would call the one that you name.\n");
    }
    script.say(&text);
    Ending::Done
}

//! A run that was superseded: the clients, old and new, accept its second attempt, and build what they would have built
//! without the first one, or with what is kept of it.

use std::collections::HashSet;

use serde_json::{Value, json};
use threadline_core::{
    Seq,
    projection::{
        closing::OpenParts,
        conversation::{Conversation, message_snapshots},
        superseding::{BegunSubagents, Continued, NextAttempt, superseding},
    },
};

use crate::{
    cases::without_accidents,
    compare::{Json, event, fold, json as json_of, messages, state},
    generate::attempts::Attempts,
    node::{self, Client, Outcome},
    package::assert_as_the_server,
    rng::seed,
};

const RUNS: u64 = 250;

/// Parts of errors about authors. A client keeps the author of an id for the whole run, and an attempt may use an id of an
/// earlier run without knowing its author, whom the snapshot between the attempts then names.
const OF_AUTHORS: [&str; 2] = ["does not match", "A tool call belongs to the message that carries it"];

/// Fate of the first attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// All of it is superseded.
    Retry,
    /// Complete messages and calls with a result are kept.
    Continue,
}

const WAYS: [Way; 2] = [Way::Retry, Way::Continue];

/// A run whose first attempt was lost, with all that the second one needs.
struct Case {
    what: String,
    way: Way,
    /// The conversation that is left of the first attempt.
    left: Conversation,
    /// Events before the first attempt.
    opened: Vec<String>,
    /// Events of the first attempt.
    first: Vec<String>,
    /// Events that supersede it.
    between: Vec<String>,
    /// Each event of the second attempt, and whether the log has it.
    second: Vec<(String, bool)>,
}

fn is(event: &str, kind: &str) -> bool {
    event.contains(&format!("\"type\":\"{kind}\""))
}

impl Case {
    /// The case, with a second attempt that is made of what is known by then.
    fn new(
        what: String,
        way: Way,
        opened: Vec<String>,
        first: Vec<String>,
        second: impl FnOnce(&Self) -> Vec<String>,
    ) -> Self {
        let run = opened.iter().rposition(|event| is(event, "RUN_STARTED")).expect("a run");
        let (mut open, mut begun) = (OpenParts::default(), BegunSubagents::default());
        for event in opened[run..].iter().chain(&first) {
            open.observe(event.as_bytes());
            begun.observe(event.as_bytes());
        }
        let before = fold(&opened);
        let mut now = before.clone();
        first.iter().for_each(|event| now.observe(event.as_bytes()));
        let (from, to) = (opened.len() as Seq + 1, (opened.len() + first.len()) as Seq);
        let kept = now.keep(&before, &open, &[]);
        let given = json!({});
        let continued = Continued { kept: &kept.ids, unverified: &kept.unverified, given: Some(&given) };
        let (left, continued) = match way {
            Way::Retry => (before, None),
            Way::Continue => (kept.conversation, Some(continued)),
        };
        let next = NextAttempt { number: 2, reason: "node-lost", superseded: (from, to), continued };
        let events = superseding(next, &open, &mut now, &left).expect("small");
        let between = std::str::from_utf8(events.body()).expect("UTF-8").lines().map(str::to_owned).collect();
        let mut case = Self { what, way, left, opened, first, between, second: Vec::new() };
        let second = second(&case);
        case.second = second.into_iter().map(|event| (event.clone(), !begun.is_repeated(event.as_bytes()))).collect();
        case
    }

    /// Messages that the last snapshot between the attempts has.
    fn snapshot(&self) -> Option<&String> {
        self.between.iter().rfind(|event| is(event, "MESSAGES_SNAPSHOT"))
    }

    fn superseded(&self) -> Vec<String> {
        [&self.opened[..], &self.first, &self.between].concat()
    }

    /// The log.
    fn whole(&self) -> Vec<String> {
        let second = self.second.iter().filter(|(_, logged)| *logged).map(|(event, _)| event.clone());
        self.superseded().into_iter().chain(second).collect()
    }

    /// Events that the second attempt finds, as if the first one had not been. A snapshot names the authors of the messages that it has.
    fn found(&self) -> Vec<String> {
        let snapshots = match self.way {
            Way::Retry => self.snapshot().cloned().into_iter().collect(),
            Way::Continue => {
                let [messages, state] = [self.left.messages_json(), self.left.state_json()];
                let [list, state] = [&messages, &state].map(|text| std::str::from_utf8(text).expect("UTF-8"));
                let is_reached = |reached: &Conversation| reached.messages_json() == messages;
                let mut all = message_snapshots(&fold(&self.opened), &list[1..list.len() - 1], is_reached);
                all.push(format!("{{\"type\":\"STATE_SNAPSHOT\",\"snapshot\":{state}}}"));
                all
            }
        };
        [self.opened.clone(), snapshots].concat()
    }

    /// The run as if the first attempt had not been.
    fn alone(&self) -> Vec<String> {
        let second = self.second.iter().map(|(event, _)| event.clone());
        self.found().into_iter().chain(second).collect()
    }

    /// Messages and state that the second attempt finds.
    fn left(&self) -> (Json, Json) {
        (messages(&self.left), state(&self.left))
    }

    /// For each event of the second attempt, the lengths of the log and of the run alone behind it.
    fn cuts(&self) -> Vec<(usize, usize)> {
        let alone = self.found().len();
        let mut logged = self.superseded().len();
        let cut = |(at, (_, is_logged)): (usize, &(String, bool))| {
            logged += usize::from(*is_logged);
            (logged, alone + at + 1)
        };
        self.second.iter().enumerate().map(cut).collect()
    }
}

/// Messages and state that the server projects from the first events, for each number of them.
fn prefixes(events: &[String]) -> Vec<(Json, Json)> {
    let mut conversation = Conversation::default();
    let mut seen = vec![(messages(&conversation), state(&conversation))];
    for event in events {
        conversation.observe(event.as_bytes());
        seen.push((messages(&conversation), state(&conversation)));
    }
    seen
}

/// Cases that were compared, and their cuts.
#[derive(Debug, Default, PartialEq, Eq)]
struct Compared {
    cases: usize,
    cuts: usize,
    /// Cases that the client refuses, since their attempts contradict each other.
    refused: usize,
}

/// Asserts that a client takes the log as the server does, wherever it takes the run alone as the server does.
fn assert_superseded(client: Client, cases: &[Case]) -> Compared {
    let line = |events: Vec<String>, from: usize| format!("{{\"events\":[{}],\"from\":{from}}}", events.join(","));
    let lines: Vec<_> = cases
        .iter()
        .flat_map(|case| [line(case.whole(), case.opened.len()), line(case.alone(), case.opened.len())])
        .collect();
    let outcomes = node::outcomes(client, &lines);
    let mut compared = Compared::default();
    for (case, outcomes) in cases.iter().zip(outcomes.chunks(2)) {
        let [whole, alone] = outcomes else { unreachable!("two of each") };
        let refused = |outcome: &Outcome, from: usize| outcome.error.is_some() && outcome.seen < from;
        if alone.error.is_some() || refused(whole, case.opened.len() + case.first.len()) {
            continue;
        }
        let text = || format!("{client:?}, {}:\n{}", case.what, case.whole().join("\n"));
        if let Some(error) = &whole.error {
            assert!(
                OF_AUTHORS.iter().any(|part| error.contains(part)),
                "{error}: event {} of {}",
                whole.seen + 1,
                text()
            );
            compared.refused += 1;
            continue;
        }
        let (ours, ours_alone) = (prefixes(&case.whole()), prefixes(&case.alone()));
        let (from, superseded) = (case.opened.len(), case.superseded().len());
        let theirs = |outcome: &Outcome, length: usize| outcome.cuts[length - from].clone();
        // The older client takes some streams otherwise than the server, superseded or not.
        let lost = from + case.first.len();
        if [from, lost].into_iter().any(|at| theirs(whole, at) != ours[at]) {
            assert_eq!(client, Client::Old, "the first attempt of {}", text());
            continue;
        }
        compared.cases += 1;
        assert_eq!(theirs(whole, superseded), case.left(), "after what supersedes in {}", text());
        for (logged, at) in case.cuts() {
            if theirs(alone, at) == ours_alone[at] {
                compared.cuts += 1;
                assert_eq!(theirs(whole, logged), ours[logged], "after {logged} events of {}", text());
            }
        }
        assert_eq!(outcomes[0].interrupts, outcomes[1].interrupts, "{}", text());
    }
    compared
}

/// Asserts that the server folds the log as the run alone, and our packages as the server.
fn assert_folded(cases: &[Case]) {
    for case in cases {
        let (whole, alone) = (prefixes(&case.whole()), prefixes(&case.alone()));
        let text = || format!("{}:\n{}", case.what, case.whole().join("\n"));
        assert_eq!(whole[case.superseded().len()], case.left(), "after what supersedes in {}", text());
        for (logged, at) in case.cuts() {
            assert_eq!(whole[logged], alone[at], "after {logged} events of {}", text());
        }
    }
    let wholes: Vec<_> = cases.iter().map(Case::whole).collect();
    assert_as_the_server("superseded runs", &wholes);
}

/// Ids that occur twice are one object in the client.
fn has_twice(conversation: &Conversation) -> bool {
    let mut ids = HashSet::new();
    conversation.messages().any(|message| !ids.insert(message.id().to_owned()))
}

/// Messages of one id and of several roles can leave one with a member that its role does not have. The client's check of a
/// snapshot removes such a member.
fn has_members_of_others(conversation: &Conversation) -> bool {
    const OWNERS: [(&str, &str); 4] =
        [("toolCalls", "assistant"), ("toolCallId", "tool"), ("error", "tool"), ("activityType", "activity")];
    let all = messages(conversation);
    all.as_array().expect("a list").iter().any(|message| {
        OWNERS.iter().any(|(member, role)| message.get(member).is_some() && message["role"] != json!(role))
    })
}

fn generated(way: Way) -> Vec<Case> {
    let seed = seed();
    let mut cases = Vec::new();
    for number in 0..RUNS {
        let attempts = || Attempts::new(seed, 30_000 + number);
        let opened = without_accidents(&mut Conversation::default(), attempts().opened().to_vec());
        let kept = fold(&opened);
        if has_twice(&kept) {
            continue;
        }
        let first = without_accidents(&mut kept.clone(), attempts().first().to_vec());
        if first.is_empty() {
            continue;
        }
        let what = format!("run {number} of seed {seed}, {way:?}");
        let case = Case::new(what, way, opened, first, |case| {
            let second = if number % 2 == 0 {
                attempts().again()
            } else {
                let snapshot = case.snapshot().map(|event| json_of(event));
                attempts()
                    .otherwise(snapshot.as_ref().and_then(|event| event["messages"].as_array().map(Vec::as_slice)))
            };
            without_accidents(&mut case.left.clone(), second)
        });
        // Ids that occur twice in an input are one object in the client, too.
        let is_doubled = |event: &String| {
            let event = json_of(event);
            let messages = event["input"]["messages"].as_array().cloned().unwrap_or_default();
            let ids: HashSet<String> = messages.iter().map(|message| message["id"].to_string()).collect();
            ids.len() < messages.len()
        };
        if !has_twice(&case.left) && !has_members_of_others(&case.left) && !case.opened.iter().any(is_doubled) {
            cases.push(case);
        }
    }
    cases
}

#[test]
fn superseded_runs_are_as_if_the_first_attempt_had_not_been() {
    agree_with_the_client(Way::Retry);
}

#[test]
fn continued_runs_are_as_if_only_what_is_kept_had_been_said() {
    agree_with_the_client(Way::Continue);
}

fn agree_with_the_client(way: Way) {
    let cases = generated(way);
    assert_folded(&cases);
    let compared = assert_superseded(Client::New, &cases);
    println!("1.0: {compared:?} of {}", cases.len());
    assert!(compared.cases > cases.len() / 2 && compared.cuts > 10 * compared.cases, "{compared:?}");
    assert!(compared.refused < cases.len() / 8, "{compared:?}");
}

#[test]
fn superseded_runs_are_as_if_the_first_attempt_had_not_been_for_the_older_client() {
    agree_with_the_older_client(Way::Retry);
}

#[test]
fn continued_runs_are_as_if_only_what_is_kept_had_been_said_for_the_older_client() {
    agree_with_the_older_client(Way::Continue);
}

fn agree_with_the_older_client(way: Way) {
    let cases = generated(way);
    let compared = assert_superseded(Client::Old, &cases);
    println!("0.0.59: {compared:?} of {}", cases.len());
    assert!(compared.cases > cases.len() / 10 && compared.cuts > 5 * compared.cases, "{compared:?}");
    assert!(compared.refused < cases.len() / 8, "{compared:?}");
}

/// Parts that a first attempt leaves, each alone and all together.
#[test]
fn every_part_that_an_attempt_leaves_is_superseded_for_both_clients() {
    let parts: [(&str, Vec<Value>); 12] = [
        (
            "a text",
            vec![
                json!({"type": "TEXT_MESSAGE_START", "messageId": "a", "role": "assistant"}),
                json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "a", "delta": "half"}),
            ],
        ),
        (
            "a call",
            vec![
                json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"}),
                json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{\"a\":"}),
            ],
        ),
        (
            "a call with its result",
            vec![
                json!({"type": "TOOL_CALL_START", "toolCallId": "d", "toolCallName": "f", "parentMessageId": "a"}),
                json!({"type": "TOOL_CALL_END", "toolCallId": "d"}),
                json!({"type": "TOOL_CALL_RESULT", "messageId": "o", "toolCallId": "d", "content": "1"}),
            ],
        ),
        (
            "reasoning",
            vec![
                json!({"type": "REASONING_START", "messageId": "r"}),
                json!({"type": "REASONING_MESSAGE_START", "messageId": "r", "role": "reasoning"}),
                json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "r", "delta": "because"}),
            ],
        ),
        (
            "an activity",
            vec![
                json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "v", "activityType": "x", "content": {"n": 1}}),
                json!({"type": "ACTIVITY_DELTA", "messageId": "v", "activityType": "x", "patch": [{"op": "add", "path": "/m", "value": 2}]}),
            ],
        ),
        ("a state", vec![json!({"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/half", "value": true}]})]),
        (
            "steps",
            vec![
                json!({"type": "STEP_STARTED", "stepName": "s"}),
                json!({"type": "STEP_STARTED", "stepName": "of another", "subagentRunId": "z"}),
            ],
        ),
        (
            "a subagent",
            vec![
                json!({"type": "SUBAGENT_STARTED", "subagentRunId": "b", "name": "n"}),
                json!({"type": "TEXT_MESSAGE_START", "messageId": "e", "role": "assistant", "subagentRunId": "b"}),
                json!({"type": "SUBAGENT_STARTED", "subagentRunId": "g", "name": "n", "parentSubagentRunId": "b"}),
                json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "g"}),
            ],
        ),
        (
            "a text of chunks",
            vec![
                json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "h", "role": "assistant", "delta": "ha"}),
                json!({"type": "TEXT_MESSAGE_CHUNK", "delta": "lf"}),
            ],
        ),
        (
            "a subagent's text of chunks",
            vec![
                json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "k", "role": "assistant", "delta": "ha", "subagentRunId": "y"}),
            ],
        ),
        (
            "a call of chunks",
            vec![json!({"type": "TOOL_CALL_CHUNK", "toolCallId": "i", "toolCallName": "f", "delta": "{"})],
        ),
        ("reasoning of chunks", vec![json!({"type": "REASONING_MESSAGE_CHUNK", "messageId": "j", "delta": "be"})]),
    ];
    let end = json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"});
    let said = |id: &str| {
        vec![
            json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": "all of it"}),
            json!({"type": "TEXT_MESSAGE_END", "messageId": id}),
        ]
    };
    let started = |run: &str, more: Value| {
        json!({"type": "RUN_STARTED", "threadId": "t", "runId": run,
        "input": {"threadId": "t", "runId": run, "messages": more}})
    };
    let bare = vec![json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})];
    let user = vec![
        started("r", json!([{"id": "u", "role": "user", "content": "hi"}])),
        json!({"type": "STATE_SNAPSHOT", "snapshot": {"n": 1}}),
    ];
    let mut history = vec![
        started("q", json!([{"id": "u0", "role": "user", "content": "hi"}])),
        json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "v0", "activityType": "x", "content": {}}),
        json!({"type": "REASONING_MESSAGE_CHUNK", "messageId": "r0", "delta": "x"}),
    ];
    history.extend(said("a0"));
    history.push(json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "q"}));
    history.extend(user.clone());
    let all: Vec<_> = parts.iter().flat_map(|(_, part)| part.clone()).collect();
    let mut cases = Vec::new();
    for (way, opened) in WAYS.into_iter().flat_map(|way| [&bare, &user, &history].map(|opened| (way, opened))) {
        for (what, part) in parts.iter().cloned().chain([("everything", all.clone())]) {
            for length in 1..=part.len() {
                let (first, opened) = (part[..length].to_vec(), opened.iter().map(event).collect());
                // Other words, and the same ones to their end.
                let mut same = part.clone();
                let mut open = OpenParts::default();
                part.iter().for_each(|value| open.observe(event(value).as_bytes()));
                same.extend(open.part_closers(false));
                for second in [said("n"), same] {
                    let second = second.iter().chain([&end]).map(event).collect::<Vec<_>>();
                    let first = first.iter().map(event).collect();
                    let what = format!("{what} up to {length}, {way:?}");
                    cases.push(Case::new(what, way, Vec::clone(&opened), first, |_| second));
                }
            }
        }
    }
    assert_folded(&cases);
    let cuts = cases.iter().map(|case| case.second.len()).sum();
    for client in [Client::New, Client::Old] {
        assert_eq!(assert_superseded(client, &cases), Compared { cases: cases.len(), cuts, refused: 0 }, "{client:?}");
    }
}

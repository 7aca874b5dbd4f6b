//! The queue, as the client and the commands have it: both against the server.

use std::future::pending;

use clap::Parser;
use futures_util::StreamExt;
use threadline::cli::{Cli, CliError, Command, queue, run::say, threads};
use threadline_client::{
    Busy, Client as Threads, ClientError, EditTurn, Hold, QueueState, RunAnswer, RunOrTurn, StartRun, Tail, TailItem,
    TailOptions, ThreadQuery, TurnPlace,
};

use super::*;
use crate::harness::{Server, agent::Call, everywhere};

fn words(run: &str) -> StartRun {
    let input = json!({ "messages": [{ "role": "user", "content": run }] });
    StartRun { run_id: Some(run.into()), agent_id: Some("a".into()), input: Some(input), ..StartRun::default() }
}

/// A thread in which run `first` is active.
async fn busy(server: &Server) -> (FakeAgent, Call, Threads) {
    let dev = server.client();
    dev.thread("t").await;
    let agent = agent(&dev).await;
    let client = threads_of(server);
    let answer = client.start_or_queue("t", &words("first"), Some(Busy::Enqueue)).await.expect("begun");
    assert!(matches!(answer, RunAnswer::Started(started) if started.run.run_id == "first"));
    let call = agent.call().await;
    (agent, call, client)
}

async fn order(client: &Threads) -> Vec<String> {
    client.queue("t").await.expect("a queue").items.into_iter().map(|turn| turn.run_id).collect()
}

/// The next state of the queue that a follower is told.
async fn told(tail: &mut Tail) -> QueueState {
    loop {
        if let TailItem::Queue(state) = tail.next().await.expect("an item").expect("no error") {
            return state;
        }
    }
}

/// Output of a command.
async fn output(client: &Threads, line: &[&str]) -> Result<String, CliError> {
    let mut out = Vec::new();
    match Cli::try_parse_from([&["threadline"], line].concat()).expect("a command line").command {
        Command::Queue(args) => queue::carry_out(client, &args, &mut out).await?,
        Command::Threads(args) => threads::list(client, &args, &mut out).await?,
        Command::Run(args) => say(client, &args, &mut out, pending()).await?,
        other => panic!("{other:?} is not tried here"),
    }
    Ok(String::from_utf8(out).expect("text"))
}

everywhere! {
    async fn the_client_queues_watches_and_changes_turns(server) {
        let (agent, call, client) = busy(server).await;
        let refused = client.start_run("t", &words("a")).await.expect_err("refused");
        assert_eq!(refused.problem("run-active").expect("that problem").run_id(), Some("first"));
        let mut tail = client.tail("t", TailOptions::default());
        for (run, place) in [("a", 1), ("b", 2), ("c", 3)] {
            let answer = client.start_or_queue("t", &words(run), Some(Busy::Enqueue)).await.expect("queued");
            assert!(matches!(&answer, RunAnswer::Queued(turn) if turn.run_id == run && turn.place == place), "{answer:?}");
        }
        while told(&mut tail).await.queued < 3 {}
        let found = client.run_or_turn("t", "b").await.expect("a turn");
        assert!(matches!(&found, RunOrTurn::Queued(turn) if turn.place == 2), "{found:?}");
        assert!(matches!(client.run_record("t", "b").await, Err(ClientError::Queued(_))));
        assert!(matches!(client.start_run("t", &words("b")).await, Err(ClientError::Queued(_))), "it is queued already");

        let queue = client.queue("t").await.expect("a queue");
        assert_eq!((queue.held, queue.items[0].asked_by.as_deref()), (None, Some("development")));
        let before = EditTurn { place: Some(TurnPlace::Before("a".into())), version: Some(queue.version), ..EditTurn::default() };
        client.edit_turn("t", "c", &before, Some(&queue.epoch)).await.expect("moved");
        let stale = client.edit_turn("t", "a", &before, None).await.expect_err("refused");
        assert_eq!(stale.problem("queue-changed").and_then(|problem| problem.number("version")), Some(queue.version + 1));
        client.edit_turn("t", "c", &EditTurn { place: Some(TurnPlace::Last), ..EditTurn::default() }, None).await.expect("moved");
        let input = json!({ "messages": [{ "role": "user", "content": "other words" }] });
        client.edit_turn("t", "a", &EditTurn { input: Some(input), ..EditTurn::default() }, None).await.expect("edited");
        client.remove_turn("t", "b", None).await.expect("removed");
        assert_eq!(order(&client).await, ["a", "c"]);
        let begun = client.remove_turn("t", "first", None).await.expect_err("refused");
        assert_eq!(begun.problem("turn-begun").expect("that problem").run_id(), Some("first"));

        assert_eq!(client.hold_queue("t", None).await.expect("held").held, Some(Hold::Hand));
        while told(&mut tail).await.held != Some(Hold::Hand) {}
        let listed = client.list_threads(&ThreadQuery::default()).await.expect("a list");
        assert_eq!((listed.threads[0].queued, listed.threads[0].held), (2, Some(Hold::Hand)));
        assert_eq!(client.release_queue("t", None).await.expect("released").held, None);
        client.start_turn("t", "c", None).await.expect("started");
        let next = agent.call().await;
        drop(call);
        next.finish(&whole("c", "m1", "yes")).await;
        agent.call().await.finish(&whole("a", "m2", "bye")).await;
        assert_eq!(ended(&server.client(), "a").await["status"], "finished");
        let found = client.run_or_turn("t", "a").await.expect("a run");
        assert!(matches!(found, RunOrTurn::Run(run) if run.run_id == "a"));
        assert!(client.run_or_turn("t", "b").await.is_err_and(|error| error.problem("run-not-found").is_some()));
        while told(&mut tail).await.queued > 0 {}
    }
}

everywhere! {
    async fn commands_queue_a_message_and_change_what_waits(server) {
        let (agent, call, client) = busy(server).await;
        let refused = output(&client, &["run", "t", "no", "--agent", "a"]).await;
        assert!(matches!(&refused, Err(CliError::Client(error)) if error.problem("run-active").is_some()), "{refused:?}");
        for run in ["a", "b"] {
            client.start_or_queue("t", &words(run), Some(Busy::Enqueue)).await.expect("queued");
        }
        let said = output(&client, &["run", "t", "And in French?", "--agent", "a", "--busy", "enqueue"]);
        let changes = async {
            let own = eventually("the message waits", async || client.queue("t").await.expect("a queue").items.get(2).cloned()).await;
            let listed = output(&client, &["queue", "t"]).await.expect("listed");
            let lines: Vec<_> = listed.lines().collect();
            assert!(lines.len() == 3 && lines[0].starts_with("a  a  development  ") && lines[2].ends_with("  And in French?"), "{listed}");
            assert!(output(&client, &["threads"]).await.expect("listed").contains("  running, 3 queued  "));
            output(&client, &["queue", "move", "t", &own.run_id, "--before", "a"]).await.expect("moved");
            output(&client, &["queue", "edit", "t", "b", "other words"]).await.expect("edited");
            let stale = output(&client, &["queue", "edit", "t", "b", "no", "--if-version", "1"]).await;
            assert!(matches!(&stale, Err(CliError::Client(error)) if error.problem("queue-changed").is_some()), "{stale:?}");
            let left = output(&client, &["queue", "remove", "t", "a"]).await.expect("removed");
            assert_eq!(left.lines().map(|line| line.split("  ").next().unwrap_or_default()).collect::<Vec<_>>(), [&own.run_id, "b"]);
            output(&client, &["queue", "hold", "t"]).await.expect("held");
            call.finish(&whole("first", "m1", "hello")).await;
            let json = output(&client, &["queue", "t", "--json"]).await.expect("listed");
            assert_eq!(serde_json::from_str::<Value>(&json).expect("JSON")["held"], "hand");
            output(&client, &["queue", "release", "t"]).await.expect("released");
            agent.call().await.finish(&whole(&own.run_id, "m2", "Oui")).await;
        };
        let (said, ()) = tokio::join!(said, changes);
        assert_eq!(said.expect("answered"), "Oui\n");
        let call = agent.call().await;
        client.start_or_queue("t", &words("c"), Some(Busy::Enqueue)).await.expect("queued");
        output(&client, &["queue", "start", "t", "c"]).await.expect("started");
        let next = agent.call().await;
        drop(call);
        let gone = output(&client, &["run", "t", "no", "--agent", "a", "--busy", "enqueue"]);
        let removal = async {
            let own = eventually("the message waits", async || client.queue("t").await.expect("a queue").items.first().cloned()).await;
            output(&client, &["queue", "remove", "t", &own.run_id]).await.expect("removed");
        };
        let (gone, ()) = tokio::join!(gone, removal);
        assert!(matches!(&gone, Err(CliError::TurnGone(_))), "{gone:?}");
        next.finish(&whole("c", "m3", "bye")).await;
        assert_eq!(ended(&server.client(), "c").await["status"], "finished");
    }
}

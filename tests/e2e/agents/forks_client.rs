//! Forks, as the client and the commands have them: both against the server.

use clap::Parser;
use threadline::cli::{Cli, Command, branches};
use threadline_client::{Client as Threads, ForkPoint, ForkThread, RunFork, StartRun};

use super::*;
use crate::harness::everywhere;

/// Output of a command.
async fn output(client: &Threads, line: &[&str]) -> String {
    let mut out = Vec::new();
    match Cli::try_parse_from([&["threadline"], line].concat()).expect("a command line").command {
        Command::Fork(args) => branches::fork_with(client, &args, &mut out).await,
        Command::Branches(args) => branches::carry_out(client, &args, &mut out).await,
        other => panic!("{other:?} is not tried here"),
    }
    .expect("no error");
    String::from_utf8(out).expect("text")
}

everywhere! {
    async fn the_client_forks_threads_and_chooses_branches(server) {
        let (dev, client) = (server.client(), threads_of(server));
        dev.thread("t").await;
        let agent = agent(&dev).await;
        let input = json!({ "messages": [user("u", "hi")] });
        let start = StartRun { run_id: Some("r".into()), agent_id: Some("a".into()), input: Some(input), ..StartRun::default() };
        assert_eq!(client.start_run("t", &start).await.expect("starts").thread_id, "t");
        agent.call().await.finish(&whole("r", "m", "hello")).await;
        eventually("the run ends", async || client.run_record("t", "r").await.expect("reads").ended_at.map(drop)).await;

        let fork = ForkThread { thread_id: Some("f".into()), at: Some(1), separate: false };
        let forked = client.fork("t", &fork, None).await.expect("forks");
        assert_eq!(client.fork("t", &fork, None).await.expect("again"), forked);
        let origin = forked.forked_from.clone().expect("an origin");
        assert_eq!((origin.thread_id.as_str(), origin.seq, forked.branched, forked.listed), ("t", 1, true, true));
        let refused = client.fork("t", &fork, Some("0123456789abcdef")).await.expect_err("another log");
        assert!(refused.problem("log-replaced").is_some(), "{refused}");

        // The same answer is asked for again, in a branch.
        let fork = RunFork { point: ForkPoint::Regenerate("m".into()), thread_id: None, stop: false };
        let again = StartRun { run_id: Some("r2".into()), agent_id: Some("a".into()), input: Some(json!({})), fork: Some(fork), epoch: None, lease_seconds: None };
        let started = client.start_run("t", &again).await.expect("starts");
        assert_eq!(agent.call().await.input()["messages"][0]["content"], "hi");
        assert_eq!(client.start_run("t", &again).await.expect("again").thread_id, started.thread_id);
        let all = client.branches("t").await.expect("reads");
        let listed: Vec<_> = all.iter().map(|branch| (branch.thread_id.as_str(), branch.listed)).collect();
        assert_eq!(listed, [("t", false), ("f", false), (started.thread_id.as_str(), true)]);
        assert!(client.list_branch("f", "t").await.expect("chooses").listed);
        let none = client.list_branch("f", "none").await.expect_err("no branch");
        assert!(none.problem("branch-not-found").is_some(), "{none}");
        client.delete_branches("f").await.expect("deletes");
        assert!(client.thread("t").await.expect_err("gone").problem("thread-not-found").is_some());
    }
}

everywhere! {
    async fn the_commands_fork_threads_and_list_branches(server) {
        let (dev, client) = (server.client(), threads_of(server));
        dev.thread("t").await;
        dev.put("/v1/threads/t/runs/r", json!([{ "type": "A" }, { "type": "B" }])).await.ok(201);
        assert_eq!(output(&client, &["fork", "t", "--at", "2", "--id", "f"]).await, "f\n");
        let copy = output(&client, &["fork", "t", "--separate"]).await;
        assert_eq!(output(&client, &["branches", copy.trim()]).await.lines().count(), 1);
        let marks = |text: &str| text.lines().map(|line| line[..4].to_owned()).collect::<Vec<_>>();
        let shown = output(&client, &["branches", "t"]).await;
        assert_eq!(marks(&shown), ["   t", "*  f"]);
        assert!(shown.contains("f  t at 2  "), "{shown}");
        assert_eq!(marks(&output(&client, &["branches", "f", "--list", "t"]).await), ["*  t", "   f"]);
        let lines = output(&client, &["branches", "t", "--json"]).await;
        let listed: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!((&listed[1]["threadId"], &listed[1]["forkedFrom"]["seq"]), (&json!("f"), &json!(2)));
    }
}

//! Threads found by their names.

use clap::Parser;
use serde_json::{Value, json};
use threadline::cli::{Cli, Command, threads};
use threadline_client::{ClientConfig, ThreadQuery};
use threadline_core::{
    NewThread, ProjectId, ThreadId, UserId,
    limits::{MAX_NAME_BYTES, MAX_PAGE, SEARCH_BYTES, SEARCH_ROWS},
};

use crate::harness::{Client, Options, Server, eventually, everywhere, number, run, text};

/// Threads of the user `dev`, straight in the store: number and name.
async fn fill(server: &Server, numbers: impl IntoIterator<Item = usize>, name: impl Fn(usize) -> Option<String>) {
    for n in numbers {
        let new = NewThread {
            project: ProjectId::new("default").expect("id"),
            id: ThreadId::new(format!("{n:05}")).expect("id"),
            user: UserId::new("dev").expect("id"),
            agent: None,
            name: name(n),
            metadata: "{}".into(),
            created_with: String::new(),
            request: None,
            claimed: true,
        };
        server.store.create_thread(new).await.expect("makes");
        // Some at the same moment.
        if n % 3 == 0 {
            server.clock.advance(std::time::Duration::from_millis(1));
        }
    }
}

fn ids(page: &Value) -> Vec<String> {
    page["threads"].as_array().expect("threads").iter().map(|thread| text(thread, "threadId").to_owned()).collect()
}

/// A query with these.
fn query(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs.iter().map(|(name, value)| {
        let value: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
        format!("{name}={value}")
    });
    format!("/v1/threads?{}", pairs.collect::<Vec<_>>().join("&"))
}

/// All pages: the ids of each.
async fn pages(client: &Client, asked: &[(&str, &str)]) -> Vec<Vec<String>> {
    let (mut pages, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let asked: Vec<_> = asked.iter().copied().chain(cursor.as_deref().map(|cursor| ("cursor", cursor))).collect();
        let page = client.get(&query(&asked)).await.ok(200);
        pages.push(ids(&page));
        let Some(next) = page["nextCursor"].as_str() else { return pages };
        cursor = Some(next.to_owned());
    }
}

everywhere! {
    async fn threads_are_found_in_order_beyond_one_page(server: |options| options.with_manual_clock()) {
        let many = 2 * MAX_PAGE + 41;
        let is_found = |n: &usize| n % 37 == 5;
        fill(server, 0..many, |n| (n % 10 > 0).then(|| format!("{} {n}", if is_found(&n) { "Ärger im ÖLHAFEN" } else { "Oelhafen" }))).await;
        let dev = server.client();
        let mut want: Vec<_> = (0..many).filter(|n| is_found(n) && n % 10 > 0).map(|n| format!("{n:05}")).collect();
        assert!(want.len() > 20);
        for limit in ["1", "7", "50", "500"] {
            let asked = [("search", " ölhafen\t"), ("order", "created"), ("limit", limit)];
            let pages = pages(&dev, &asked).await;
            assert!(pages.iter().all(|page| page.len() <= limit.parse().expect("a number")));
            assert_eq!(pages.concat(), want, "{limit} at once");
        }
        // The newest first; those of one moment by their ids, as in the whole list.
        let all = pages(&dev, &[("limit", "500")]).await.concat();
        want.sort_by_key(|id| all.iter().position(|listed| listed == id));
        for limit in ["3", "50"] {
            assert_eq!(pages(&dev, &[("search", "ÄRGER"), ("limit", limit)]).await.concat(), want, "{limit} at once");
        }
        assert_eq!(pages(&dev, &[("search", "nowhere")]).await, [[""; 0]]);
        assert_eq!(pages(&server.user("eve"), &[("search", "ärger")]).await, [[""; 0]]);
    }
}

everywhere! {
    async fn a_search_is_one_condition_among_others(server: |options| options.with_manual_clock()) {
        let dev = server.client();
        for (id, name, agent) in [("a", "ΟΔΟΣ 1", "x"), ("b", "οδος 2", "y"), ("c", "İstanbul", "x"), ("d", "οδοσήμανση", "x")] {
            dev.post("/v1/threads", json!({ "threadId": id, "name": name, "agentId": agent })).await.ok(201);
            server.pass(1);
        }
        dev.thread("nameless").await;
        let found = async |asked: &[(&str, &str)]| pages(&dev, asked).await.concat();
        assert_eq!(found(&[("search", "Οδος")]).await, ["d", "b", "a"]);
        assert_eq!(found(&[("search", "ΟΔΟΣ"), ("order", "created")]).await, ["a", "b", "d"]);
        assert_eq!(found(&[("search", "ΟΔΟΣ"), ("agentId", "x")]).await, ["d", "a"]);
        assert_eq!(found(&[("search", "İSTAN")]).await, ["c"]);
        dev.patch("/v1/threads/a", json!({ "archived": true })).await.ok(200);
        dev.patch("/v1/threads/b", json!({ "name": "elsewhere" })).await.ok(200);
        assert_eq!(found(&[("search", "οδοσ")]).await, ["d"]);
        assert_eq!(found(&[("search", "οδοσ"), ("includeArchived", "true")]).await, ["a", "d"]);
        // Its cursors are those of the whole list.
        let first = dev.get(&query(&[("search", "οδοσ"), ("includeArchived", "true"), ("limit", "1")])).await.ok(200);
        let rest = dev.get(&query(&[("cursor", text(&first, "nextCursor")), ("limit", "1")])).await.ok(200);
        assert_eq!((ids(&first), ids(&rest)), (vec!["a".to_owned()], vec!["b".to_owned()]));
        eventually("the feed is written", async || {
            server.store.dirty_feeds(1).await.expect("looks").is_empty().then_some(())
        })
        .await;
        let (searched, listed) = (dev.get(&query(&[("search", "x")])).await.ok(200), dev.get(&query(&[])).await.ok(200));
        assert!(number(&searched, "feedCursor") > 0);
        assert_eq!(number(&searched, "feedCursor"), number(&listed, "feedCursor"));
        for bad in ["", " ", "\u{a0}\n", &"x".repeat(1_025)] {
            dev.get(&query(&[("search", bad)])).await.problem(400, "invalid-request");
        }
        assert_eq!(found(&[("search", &"x".repeat(1_024))]).await, [""; 0]);
        assert_eq!(found(&[("search", "\u{0}")]).await, [""; 0]);
    }
}

/// A page that finds nothing in many threads is sent nevertheless, and the next one continues where it stopped.
#[tokio::test]
async fn a_page_of_a_search_may_be_empty_and_not_the_last() {
    run(Options::memory().with_manual_clock(), async |server: &Server| {
        let many = SEARCH_ROWS + MAX_PAGE + 1;
        let name = |n: usize| Some(if matches!(n, 3 | 10_498) { "needle" } else { "hay" }.to_owned());
        fill(server, 0..many, name).await;
        let dev = server.client();
        let asked = async |order: &str| pages(&dev, &[("search", "Needle"), ("order", order)]).await;
        assert_eq!(asked("created").await, [["00003"], ["10498"]]);
        assert_eq!(asked("recent").await, [["10498"], ["00003"]]);
        dev.delete("/v1/threads/00003").await;
        assert_eq!(asked("created").await, [vec![], vec!["10498".to_owned()]]);
        dev.delete("/v1/threads/10498").await;
        assert_eq!(asked("created").await, [[""; 0]; 2]);
    })
    .await;
}

/// Long names are many bytes to compare: one page reads fewer of them.
#[tokio::test]
async fn a_page_of_a_search_reads_a_bounded_number_of_bytes() {
    run(Options::memory().with_manual_clock(), async |server: &Server| {
        let first = SEARCH_BYTES.div_ceil(MAX_PAGE * MAX_NAME_BYTES) * MAX_PAGE;
        let long = "x".repeat(MAX_NAME_BYTES);
        let name = |n: usize| Some(if n == first { "needle".to_owned() } else { long.clone() });
        fill(server, 0..first + 1, name).await;
        let found = pages(&server.client(), &[("search", "Needle"), ("order", "created")]).await;
        assert_eq!(found, [vec![], vec![format!("{first:05}")]]);
    })
    .await;
}

everywhere! {
    async fn the_client_and_the_command_line_find_them_and_mark_them_as_read(server) {
        let dev = server.client();
        for (id, name) in [("cafe", "Café in Lisbon"), ("tea", "Tea"), ("old", "CAFE\u{301}")] {
            dev.post("/v1/threads", json!({ "threadId": id, "name": name })).await.ok(201);
        }
        dev.put("/v1/threads/cafe/runs/r", json!([{ "type": "A" }, { "type": "RUN_FINISHED" }])).await.ok(201);
        dev.patch("/v1/threads/old", json!({ "archived": true })).await.ok(200);
        let client = threadline_client::Client::new(ClientConfig::new(format!("http://{}", server.addr))).expect("a client");
        let query = ThreadQuery { search: Some("ｃａｆｅ".into()), ..ThreadQuery::default() };
        let page = client.list_threads(&query).await.expect("a page");
        let found: Vec<_> = page.threads.iter().map(|thread| (thread.thread_id.as_str(), thread.tail, thread.read_seq)).collect();
        assert_eq!(found, [("cafe", 2, 0)]);
        assert_eq!(client.mark_read("cafe", 2, None).await.expect("marked").read_seq, 2);
        assert_eq!(client.mark_read("cafe", 1, None).await.expect("marked").read_seq, 2, "never back");
        let ahead = client.mark_read("cafe", 3, None).await.expect_err("beyond the tail");
        assert!(ahead.problem("cursor-ahead").is_some(), "{ahead:?}");
        for (words, expected) in [
            (&["--search", "cafe"] as &[&str], &["cafe"] as &[&str]),
            (&["--search", "CAFÉ", "--all"], &["old", "cafe"]),
            (&["--search", "coffee"], &[]),
        ] {
            let line = ["threadline", "threads", "--json"].iter().chain(words);
            let Command::Threads(args) = Cli::try_parse_from(line).expect("a command line").command else { panic!("not threads") };
            let mut out = Vec::new();
            threads::list(&client, &args, &mut out).await.expect("listed");
            let out = String::from_utf8(out).expect("text");
            let mut ids: Vec<_> = out.lines().map(|line| text(&serde_json::from_str(line).expect("JSON"), "threadId").to_owned()).collect();
            ids.sort_by_key(|id| id.len());
            assert_eq!(ids, expected, "{words:?}");
        }
        assert!(Cli::try_parse_from(["threadline", "threads", "--search", ""]).is_err());
    }
}

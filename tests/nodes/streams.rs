//! Plain streams that are written and read on several nodes.

use reqwest::{Method, Response, StatusCode};

use crate::cluster::{BY_THE_BUS, Cluster, PATIENCE, in_time};

const STREAM: &str = "/streams/v1/stream/notes";

/// Requests to the nodes.
struct Nodes {
    cluster: Cluster,
    http: reqwest::Client,
}

/// A producer, and the number of its append.
type By<'a> = Option<(&'a str, usize)>;

impl Nodes {
    fn start() -> Self {
        let http =
            reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(PATIENCE).build().expect("a client");
        Self { cluster: Cluster::start(2), http }
    }

    async fn write(&self, node: usize, method: Method, by: By<'_>, body: &str) -> StatusCode {
        let mut request = self.http.request(method, format!("{}{STREAM}", self.cluster.nodes[node].url));
        request = request.header("content-type", "text/plain").body(body.to_owned());
        if let Some((id, seq)) = by {
            let seq = seq.to_string();
            for (name, value) in [("producer-id", id), ("producer-epoch", "1"), ("producer-seq", &seq)] {
                request = request.header(name, value);
            }
        }
        request.send().await.expect("an answer").status()
    }

    async fn read(&self, node: usize, query: &str) -> Response {
        let address = format!("{}{STREAM}?{query}", self.cluster.nodes[node].url);
        self.http.get(address).send().await.expect("an answer")
    }
}

/// Reads a stream of events until it has a text, at the latest at its end.
async fn until(events: &mut Response, said: &mut String, text: &str) -> bool {
    while !said.contains(text) {
        let Ok(Some(chunk)) = events.chunk().await else { return false };
        said.push_str(&String::from_utf8_lossy(&chunk));
    }
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_wakes_the_readers_of_other_nodes() {
    let nodes = Nodes::start();
    assert_eq!(nodes.write(0, Method::PUT, None, "begun\n").await, StatusCode::CREATED);
    let (mut events, mut said) = (nodes.read(1, "offset=-1&live=sse").await, String::new());
    assert!(in_time(PATIENCE, "the reader is live", until(&mut events, &mut said, "upToDate")).await);
    // The subscription to the bus may still be in the making: the first round is found in any case.
    for round in 0..=5 {
        let line = format!("line {round}");
        assert_eq!(nodes.write(0, Method::POST, None, &format!("{line}\n")).await, StatusCode::NO_CONTENT);
        let patience = if round == 0 { PATIENCE } else { BY_THE_BUS };
        assert!(in_time(patience, &line, until(&mut events, &mut said, &line)).await, "{said}");
    }
    assert_eq!(nodes.write(0, Method::DELETE, None, "").await, StatusCode::NO_CONTENT);
    let ended = in_time(BY_THE_BUS, "the end", until(&mut events, &mut said, "line 6")).await;
    assert!(!ended, "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_on_several_nodes_are_each_stored_once_and_in_the_order_of_their_producer() {
    const APPENDS: usize = 25;
    let nodes = Nodes::start();
    assert_eq!(nodes.write(0, Method::PUT, None, "").await, StatusCode::CREATED);
    let producers = ["a", "b", "c", "d"];
    let writes = producers.iter().enumerate().map(async |(at, producer)| {
        for seq in 0..APPENDS {
            let (by, line) = (Some((*producer, seq)), format!("{producer} {seq}\n"));
            let first = nodes.write(at % 2, Method::POST, by, &line).await;
            assert_eq!(first, StatusCode::OK, "{line}");
            // The answer was lost, and the producer repeats the append on the other node.
            if seq % 5 == 0 {
                let again = nodes.write((at + 1) % 2, Method::POST, by, &line).await;
                assert_eq!(again, StatusCode::NO_CONTENT, "{line}");
            }
        }
    });
    in_time(PATIENCE, "all is appended", futures_util::future::join_all(writes)).await;
    let mut texts = Vec::new();
    for node in 0..2 {
        texts.push(nodes.read(node, "offset=-1").await.text().await.expect("a text"));
    }
    assert_eq!(texts[0], texts[1]);
    assert_eq!(texts[0].lines().count(), producers.len() * APPENDS);
    for producer in producers {
        let own: Vec<_> = texts[0].lines().filter(|line| line.starts_with(producer)).collect();
        let written: Vec<_> = (0..APPENDS).map(|seq| format!("{producer} {seq}")).collect();
        assert_eq!(own, written);
    }
}

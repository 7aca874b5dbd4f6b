//! Responses of the OpenAI API: every node gives the same events under the same numbers.

use serde_json::{Value, json};

use crate::cluster::*;

/// The frames of a stream, without the comments between them.
fn frames(stream: &str) -> Vec<&str> {
    stream.split("\n\n").filter(|frame| !frame.is_empty() && !frame.starts_with(':')).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_has_the_same_bytes_on_every_node() {
    let cluster = Cluster::start(2);
    let [one, other] = [0, 1].map(|node| format!("http://{}/openai/v1/responses", cluster.addresses()[node]));
    let http = reqwest::Client::new();
    let read = async |url: String| {
        let response = http.get(url).send().await.expect("an answer").error_for_status().expect("a response");
        in_time(PATIENCE, "the stream ends", response.text()).await.expect("whole")
    };
    let request = json!({ "model": "demo", "input": "Hello", "background": true, "stream": true });
    let mut live = http.post(&one).json(&request).send().await.expect("an answer");
    let first = in_time(PATIENCE, "the response begins", live.chunk()).await.expect("a piece").expect("a piece");
    let first = String::from_utf8(first.to_vec()).expect("text");
    let created: Value = serde_json::from_str(frames(&first)[0].split_once("data: ").expect("data").1).expect("JSON");
    let id = created["response"]["id"].as_str().expect("an id");
    let followed = read(format!("{other}/{id}?stream=true")).await;
    let rest = in_time(PATIENCE, "the stream ends", live.text()).await.expect("whole");
    let whole = format!("{first}{rest}");
    assert_eq!(frames(&followed), frames(&whole));
    assert!(frames(&whole).last().expect("an event").starts_with("event: response.completed\n"));
    for node in [&one, &other] {
        let number = frames(&whole).len() / 2;
        let behind = read(format!("{node}/{id}?stream=true&starting_after={number}")).await;
        assert_eq!(frames(&behind), frames(&whole)[number + 1..]);
    }
}

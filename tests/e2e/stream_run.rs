//! A run as one streamed request.

use std::convert::Infallible;

use bytes::Bytes;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinHandle};

use crate::harness::{
    Answer, Client, eventually, everywhere, number,
    raw::{self, Raw},
};

/// A body under the test's control.
struct Upload {
    chunks: mpsc::UnboundedSender<Bytes>,
    answer: JoinHandle<Answer>,
}

impl Upload {
    fn begin(client: &Client, path: &str) -> Self {
        let (chunks, body) = mpsc::unbounded_channel::<Bytes>();
        let body = futures_util::stream::unfold(body, async |mut body| {
            let chunk = body.recv().await?;
            Some((Ok::<_, Infallible>(chunk), body))
        });
        let (client, path) = (client.clone(), path.to_owned());
        let answer =
            tokio::spawn(async move { client.ndjson(Method::POST, &path, reqwest::Body::wrap_stream(body)).await });
        Self { chunks, answer }
    }

    fn send(&self, bytes: impl Into<Bytes>) {
        self.chunks.send(bytes.into()).expect("the request continues");
    }

    async fn end(self) -> Answer {
        drop(self.chunks);
        self.answer.await.expect("an answer")
    }

    /// The answer, though the body has not ended.
    async fn early(self) -> Answer {
        self.answer.await.expect("an answer")
    }
}

async fn tail(client: &Client, wanted: u64) {
    eventually("the events are stored", async || {
        let thread = client.get("/v1/threads/t").await.ok(200);
        (number(&thread, "tail") >= wanted).then_some(())
    })
    .await;
}

everywhere! {
    async fn chunks_may_be_cut_anywhere_and_the_end_of_the_body_ends_the_run(server) {
        let dev = server.client();
        dev.thread("t").await;
        let upload = Upload::begin(&dev, "/v1/threads/t/runs?runId=r&agentId=a");
        let lines = "{\"type\":\"RUN_STARTED\"}\n\n{\"type\":\"TEXT_MESSAGE_START\",\"messageId\":\"é🦀\"}\r\n";
        for byte in lines.bytes() {
            upload.send(vec![byte]);
        }
        tail(&dev, 2).await;
        upload.send("\n");
        upload.send("\n \n{\"type\":\"LAST\"}");
        let answer = upload.end().await.ok(201);
        assert_eq!((&answer["run"]["status"], &answer["cursor"]), (&json!("finished"), &json!(0)));
        assert_eq!((&answer["run"]["agentId"], number(&answer["run"], "lastSeq")), (&json!("a"), 5));
        let types = ["RUN_STARTED", "TEXT_MESSAGE_START", "LAST", "TEXT_MESSAGE_END", "RUN_FINISHED"];
        assert_eq!(dev.types("t").await, types);
        // All of it again, after the answer was lost.
        let path = "/v1/threads/t/runs?runId=r&agentId=a";
        let again = dev.ndjson(Method::POST, path, format!("{lines}{{\"type\":\"LAST\"}}")).await.ok(200);
        assert_eq!(again, answer);
        assert_eq!(dev.types("t").await, types);
    }
}

everywhere! {
    async fn an_empty_body_is_a_run_that_did_nothing(server) {
        let dev = server.client();
        dev.thread("t").await;
        let answer = dev.ndjson(Method::POST, "/v1/threads/t/runs?runId=r", "\n\n").await.ok(201);
        assert_eq!(answer["run"]["status"], "finished");
        assert_eq!(dev.types("t").await, ["RUN_STARTED", "RUN_FINISHED"]);
    }
}

everywhere! {
    async fn a_terminal_event_ends_the_run_before_the_body_ends(server) {
        let dev = server.client();
        dev.thread("t").await;
        let upload = Upload::begin(&dev, "/v1/threads/t/runs?runId=r");
        upload.send("{\"type\":\"A\"}\n{\"type\":\"RUN_ERROR\",\"message\":\"m\",\"code\":\"c\"}\n");
        let chunks = upload.chunks.clone();
        let answer = upload.early().await;
        assert_eq!(answer.header("connection"), "close");
        let answer = answer.ok(201);
        assert_eq!((&answer["run"]["status"], &answer["run"]["errorCode"]), (&json!("error"), &json!("c")));
        drop(chunks);
    }
}

everywhere! {
    async fn a_stop_answers_at_once(server) {
        let dev = server.client();
        dev.thread("t").await;
        let upload = Upload::begin(&dev, "/v1/threads/t/runs?runId=r");
        upload.send("{\"type\":\"STEP_STARTED\",\"stepName\":\"s\"}\n");
        tail(&dev, 1).await;
        dev.act("t", "r", "stop").await.ok(202);
        let chunks = upload.chunks.clone();
        let answer = upload.early().await;
        assert_eq!(answer.header("connection"), "close");
        let answer = answer.ok(201);
        assert_eq!(answer["run"]["status"], "stopped");
        assert_eq!(dev.types("t").await, ["STEP_STARTED", "STEP_FINISHED", "RUN_FINISHED"]);
        drop(chunks);
        // Lost the answer, and sends everything again, with what it went on to say meanwhile.
        let whole = "{\"type\":\"STEP_STARTED\",\"stepName\":\"s\"}\n{\"type\":\"MORE\"}\n";
        let again = dev.ndjson(Method::POST, "/v1/threads/t/runs?runId=r", whole).await.ok(200);
        assert_eq!(again, answer);
        assert_eq!(dev.types("t").await.len(), 3);
    }
}

everywhere! {
    async fn a_client_that_writes_everything_first_still_gets_the_early_answer(server) {
        let dev = server.client();
        dev.thread("t").await;
        let mut body = b"{\"type\":\"A\"}\n{\"type\":\"RUN_FINISHED\"}\n".to_vec();
        // More than the buffers of a connection hold.
        body.resize(24 * 1024 * 1024, b'\n');
        let headers = [("Content-Type", "application/x-ndjson")];
        let answer = raw::exchange(server.addr, "POST /v1/threads/t/runs?runId=r", &headers, &body).await;
        assert_eq!(answer.ok(201)["run"]["status"], "finished");
    }
}

everywhere! {
    async fn a_broken_stream_is_resumed_from_the_beginning_or_from_the_middle(server) {
        let dev = server.client();
        dev.thread("t").await;
        let head = "POST /v1/threads/t/runs?runId=r HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n\
                    Transfer-Encoding: chunked\r\n\r\n";
        let mut raw = Raw::connect(server.addr).await;
        raw.write(format!("{head}1a\r\n{{\"type\":\"A\"}}\n{{\"type\":\"B\"}}\r\n\r\n")).await;
        // The second line is not complete before its end is seen.
        tail(&dev, 1).await;
        drop(raw);
        let lines = "{\"type\":\"A\"}\n{\"type\":\"B\"}\n{\"type\":\"C\"}\n";
        let mut raw = Raw::connect(server.addr).await;
        raw.write(format!("{head}{:x}\r\n{lines}\r\n", lines.len())).await;
        tail(&dev, 3).await;
        assert_eq!(dev.get("/v1/threads/t/runs/r").await.ok(200)["status"], "running");
        drop(raw);
        let rest = "{\"type\":\"C\"}\n{\"type\":\"D\"}\n";
        let path = "/v1/threads/t/runs?runId=r&producerSeq=3";
        let answer = dev.ndjson(Method::POST, path, rest).await.ok(200);
        assert_eq!(answer["run"]["status"], "finished");
        assert_eq!(dev.types("t").await, ["A", "B", "C", "D", "RUN_FINISHED"]);
    }
}

everywhere! {
    async fn an_invalid_line_ends_the_run(server) {
        let dev = server.client();
        dev.thread("t").await;
        let body = "{\"type\":\"A\"}\nnonsense\n{\"type\":\"B\"}\n";
        let answer = dev.ndjson(Method::POST, "/v1/threads/t/runs?runId=r", body).await;
        assert_eq!(number(&answer.problem(422, "invalid-event"), "index"), 1);
        let run = dev.get("/v1/threads/t/runs/r").await.ok(200);
        assert_eq!((&run["status"], &run["errorCode"]), (&json!("error"), &json!("invalid-event")));
        assert_eq!(dev.types("t").await, ["A", "RUN_ERROR"]);
        let again = dev.ndjson(Method::POST, "/v1/threads/t/runs?runId=r", body).await;
        assert_eq!(again.body, answer.body);
        // A thread held by another run, and one that does not exist.
        dev.run("t", "s").await;
        dev.ndjson(Method::POST, "/v1/threads/t/runs?runId=u", body).await.problem(409, "run-active");
        dev.ndjson(Method::POST, "/v1/threads/none/runs", body).await.problem(404, "thread-not-found");
    }
}

everywhere! {
    async fn a_fenced_stream_gets_an_error(server: |options| options.with_manual_clock()) {
        let dev = server.client();
        dev.thread("t").await;
        let upload = Upload::begin(&dev, "/v1/threads/t/runs?runId=r&leaseSeconds=5");
        upload.send("{\"type\":\"A\"}\n");
        tail(&dev, 1).await;
        server.pass(6);
        let ended = eventually("the reaper ends it", async || {
            let run = dev.get("/v1/threads/t/runs/r").await.ok(200);
            (run["status"] == "error").then_some(run)
        })
        .await;
        assert_eq!(ended["errorCode"], "lease-expired");
        upload.send("{\"type\":\"B\"}\n");
        let refused: Value = upload.end().await.problem(409, "run-fenced");
        assert_eq!(refused["run"]["errorCode"], "lease-expired");
        assert_eq!(dev.types("t").await, ["A", "RUN_ERROR"]);
    }
}

everywhere! {
    async fn a_continued_stream_needs_a_started_run(server) {
        let dev = server.client();
        dev.thread("t").await;
        let line = "{\"type\":\"A\"}\n";
        let path = "/v1/threads/t/runs?producerSeq=5";
        dev.ndjson(Method::POST, path, line).await.problem(400, "invalid-request");
        dev.ndjson(Method::POST, &format!("{path}&runId=r"), line).await.problem(404, "run-not-found");
        // No run holds the thread.
        dev.ndjson(Method::POST, "/v1/threads/t/runs?runId=s", line).await.ok(201);
    }
}

// The silence of a producer counts, also where its connection stays open.
everywhere! {
    async fn a_producer_that_hangs_on_an_open_connection_loses_its_run(server) {
        let dev = server.client();
        dev.thread("t").await;
        let upload = Upload::begin(&dev, "/v1/threads/t/runs?runId=r&leaseSeconds=1");
        upload.send("{\"type\":\"A\"}\n");
        tail(&dev, 1).await;
        let ended = eventually("the run is abandoned", async || {
            let run = dev.get("/v1/threads/t/runs/r").await.ok(200);
            (run["status"] != "running").then_some(run)
        })
        .await;
        assert_eq!((&ended["status"], &ended["errorCode"]), (&json!("error"), &json!("lease-expired")));
        assert_eq!(dev.types("t").await, ["A", "RUN_ERROR"]);
        // The thread is free, and the open connection receives its answer.
        dev.run("t", "next").await;
        let chunks = upload.chunks.clone();
        let refused = upload.early().await.problem(409, "run-fenced");
        assert_eq!(refused["run"]["errorCode"], "lease-expired");
        drop(chunks);
    }
}

everywhere! {
    async fn blank_lines_keep_the_run_of_a_slow_producer(server) {
        let dev = server.client();
        dev.thread("t").await;
        let upload = Upload::begin(&dev, "/v1/threads/t/runs?runId=r&leaseSeconds=1");
        upload.send("{\"type\":\"A\"}\n");
        tail(&dev, 1).await;
        let lease = async || {
            let run = dev.get("/v1/threads/t/runs/r").await.ok(200);
            assert_eq!(run["status"], "running", "{run}");
            run["leaseUntil"].as_str().expect("a time").to_owned()
        };
        // Each renewal is about a third of a second after the one before it.
        let mut seen = std::collections::BTreeSet::from([lease().await]);
        eventually("the lease was renewed for more than three times its length", async || {
            upload.send("\n");
            seen.insert(lease().await);
            (seen.len() > 10).then_some(())
        })
        .await;
        assert_eq!(upload.end().await.ok(201)["run"]["status"], "finished");
    }
}

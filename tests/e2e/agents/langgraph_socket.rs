//! The socket of LangGraph's API. The socket transport of its package is in `tests/real/node/langgraph-socket.test.mjs`.

use std::collections::HashSet;

use threadline_core::Scope;
use threadline_http::egress::Network;
use tokio_tungstenite::tungstenite::{Error, Message, handshake::client::Request};

use super::{
    langgraph::{Page, ROOT, last_values, lasting, names, says, texts},
    *,
};
use crate::{
    harness::{Socket, everywhere, socket},
    identity::{key, token},
};

/// Handshake for the socket of a thread.
fn at(client: &Client, thread: &str) -> Request {
    let mut request = socket::handshake(client);
    let url = format!("ws://{}/langgraph/threads/{thread}/stream/events", client.addr);
    *request.uri_mut() = url.parse().expect("a URL");
    request.headers_mut().remove("sec-websocket-protocol");
    request
}

/// Client of a socket.
struct Line {
    socket: Socket,
    /// Number of the newest command.
    newest: u64,
    /// Events that came before a response.
    events: Vec<Value>,
}

impl Line {
    async fn open(client: &Client) -> Self {
        let (socket, _) = Socket::connect(at(client, "t")).await.expect("a socket");
        Self { socket, newest: 0, events: Vec::new() }
    }

    /// Sends a command, and waits for its response.
    async fn command(&mut self, method: &str, params: Value) -> Value {
        self.newest += 1;
        self.socket.send(json!({ "id": self.newest, "method": method, "params": params })).await;
        loop {
            let frame = self.socket.any().await;
            if frame["type"] != "event" {
                assert_eq!(frame["id"], self.newest, "{frame}");
                return frame;
            }
            self.events.push(frame);
        }
    }

    /// Subscribes; returns the id of the subscription.
    async fn subscribe(&mut self, channels: &[&str]) -> String {
        let params = json!({ "channels": channels, "namespaces": [[]], "depth": 1 });
        let answer = self.command("subscription.subscribe", params).await;
        assert_eq!(answer["type"], "success", "{answer}");
        text(&answer["result"], "subscription_id").to_owned()
    }

    async fn begin(&mut self, id: &str, text_of: &str) -> String {
        let started = self.command("run.start", says(id, text_of)).await;
        assert_eq!(started["type"], "success", "{started}");
        text(&started["result"], "run_id").to_owned()
    }

    /// Events up to the end of a run, each of them once, as clients take them.
    async fn run(&mut self) -> Vec<Value> {
        let mut seen = HashSet::new();
        let mut told = Vec::new();
        loop {
            let event = if self.events.is_empty() { self.socket.any().await } else { self.events.remove(0) };
            assert_eq!(event["type"], "event", "{event}");
            if !seen.insert(text(&event, "event_id").to_owned()) {
                continue;
            }
            let ends = event["method"] == "lifecycle" && event["params"]["data"]["event"] != "running";
            told.push(event);
            if ends {
                return told;
            }
        }
    }
}

everywhere! {
    async fn the_events_of_a_socket_are_those_of_the_stream(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let mut line = Line::open(&dev).await;
        // The thread does not exist yet.
        let watches = line.subscribe(&["lifecycle", "input"]).await;
        let run = line.begin("u", "hi").await;
        let mut page = Page::open(&dev, &ROOT).await;
        let mut call = agent.call().await;
        call.say(&said("m", "half")[..2]).await;
        // A subscription gets the whole run, and the other one nothing that it has not seen, but in the same order.
        let shows = line.subscribe(&ROOT).await;
        assert_ne!(watches, shows);
        call.finish(&[json!({ "type": "TEXT_MESSAGE_END", "messageId": "m" }), finished(&run)]).await;
        let (told, streamed) = (line.run().await, page.run().await);
        assert_eq!((lasting(&told), last_values(&told)), (lasting(&streamed), last_values(&streamed)));
        let ends = line.command("subscription.unsubscribe", json!({ "subscription_id": shows })).await;
        assert_eq!(ends, json!({ "type": "success", "id": line.newest, "result": {} }));
        let unknown = line.command("subscription.unsubscribe", json!({ "subscription_id": shows })).await;
        assert_eq!((&unknown["type"], &unknown["error"]), (&json!("error"), &json!("no_such_subscription")));
        // The rest of the socket's subscriptions go on with the next run.
        let next = line.begin("v", "more").await;
        let mut asks = finished(&next);
        let interrupts = [json!({ "id": "i", "reason": "confirm", "message": "ok?" })];
        asks["outcome"] = json!({ "type": "interrupt", "interrupts": interrupts });
        agent.call().await.finish(&[asks]).await;
        assert_eq!(names(&line.run().await), ["running", "input.requested", "interrupted"]);
        let answered = line.command("input.respond", json!({ "interrupt_id": "i", "response": true })).await;
        let last = text(&answered["result"], "run_id").to_owned();
        agent.call().await.finish(&whole(&last, "n", "thanks")).await;
        assert_eq!(names(&line.run().await), ["running", "input.answered", "completed"]);
        // A socket without subscriptions is silent, and a later one gets the newest run.
        line.command("subscription.unsubscribe", json!({ "subscription_id": watches })).await;
        assert_eq!(line.events, [] as [Value; 0]);
        line.subscribe(&["values", "lifecycle"]).await;
        let told = line.run().await;
        assert_eq!(texts(last_values(&told)), ["hi", "half", "more", "thanks"]);
        assert_eq!(told[0]["event_id"].as_str().and_then(|id| id.split(':').nth(1)), Some(last.as_str()));
        let readers = dev.get("/v1/threads/t/subscriptions").await.ok(200);
        assert_eq!(readers["subscriptions"][0]["transport"], "langgraph");
    }
}

everywhere! {
    async fn a_bad_frame_is_refused_or_ends_the_socket(server) {
        let dev = server.client();
        agent(&dev).await;
        let mut line = Line::open(&dev).await;
        for (frame, code) in [
            (json!({ "id": 1, "method": "run.stop" }), "unknown_command"),
            (json!({ "id": 1, "method": "run.start" }), "invalid_argument"),
            (json!({ "id": 1, "method": "run.start", "params": 7 }), "invalid_argument"),
            (json!({ "id": 1, "method": "run.start", "params": { "assistant_id": "nobody" } }), "invalid_argument"),
            (json!({ "id": 1, "method": "input.respond", "params": { "interrupt_id": "i" } }), "no_such_interrupt"),
            (json!({ "id": 1, "method": "subscription.subscribe", "params": { "channels": ["nope"] } }), "invalid_argument"),
            (json!({ "id": 1, "method": "subscription.subscribe", "params": [["values"]] }), "invalid_argument"),
            (json!({ "id": 1, "method": "subscription.unsubscribe", "params": { "subscription_id": 3 } }), "invalid_argument"),
            (json!({ "id": 1, "method": "subscription.unsubscribe", "params": null }), "no_such_subscription"),
        ] {
            line.socket.send(frame.clone()).await;
            let refused = line.socket.any().await;
            assert_eq!((&refused["type"], &refused["id"], &refused["error"]), (&json!("error"), &json!(1), &json!(code)), "{frame}: {refused}");
            assert!(refused["message"].as_str().is_some_and(|message| !message.is_empty()), "{refused}");
        }
        // Clients know a response by the number of its command.
        for frame in [json!({}), json!({ "id": "1", "method": "run.start" }), json!({ "id": -1, "method": "run.start" }), json!({ "id": 1 })] {
            line.socket.send(frame.clone()).await;
            let refused = line.socket.any().await;
            assert_eq!((&refused["id"], &refused["error"]), (&Value::Null, &json!("invalid_argument")), "{frame}: {refused}");
        }
        let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
        for method in ["run.start", "subscription.subscribe"] {
            line.socket.send_text(format!("{{\"id\":2,\"method\":\"{method}\",\"params\":{{\"channels\":[],\"input\":{deep}}}}}")).await;
            assert_eq!(line.socket.any().await["error"], "invalid_argument");
        }
        dev.get("/langgraph/threads/t").await.problem(404, "thread-not-found");
        // The client takes these codes for statuses, after which it does not connect again.
        for (message, expected) in [
            (Message::text("nonsense"), 4400),
            (Message::text("[1, \"run.start\"]"), 4400),
            (Message::text("{\"id\":1"), 4400),
            (Message::text(format!("{{\"id\":1,\"method\":\"{}\"}}", "x".repeat(17 * 1024 * 1024))), 4413),
            (Message::binary(b"{}".to_vec()), 4400),
        ] {
            let mut line = Line::open(&dev).await;
            crate::harness::soon(futures_util::SinkExt::send(&mut line.socket.stream, message)).await.expect("sent");
            assert_eq!(line.socket.closed().await.1, expected);
        }
        let subscriptions = async |line: &mut Line| line.command("subscription.subscribe", json!({ "channels": ["input"] })).await;
        let mut full = Line::open(&dev).await;
        for _ in 0..256 {
            assert_eq!(subscriptions(&mut full).await["type"], "success");
        }
        let refused = subscriptions(&mut full).await;
        assert_eq!((&refused["type"], &refused["error"]), (&json!("error"), &json!("invalid_argument")), "{refused}");
    }
}

everywhere! {
    async fn a_socket_of_langgraph_does_what_its_credential_may(server: |options| options.with_key("secret").with_agent_networks(vec![Network::Loopback])) {
        let agent = agent(&server.project()).await;
        let user = |client: Client, user: &str| Client { user: Some(user.into()), ..client };
        let of = async |name: &str, scopes: &[Scope]| user(key(server, "default", scopes).await, name);
        let mut reader = Line::open(&of("ann", &[Scope::Read]).await).await;
        reader.subscribe(&["lifecycle"]).await;
        let writer = Line::open(&of("ann", &[Scope::Chat]).await).await;
        let may = of("ann", &[Scope::Read, Scope::Chat]).await;
        let ann = Line::open(&may).await;
        let respond = json!({ "interrupt_id": "i", "response": 1 });
        let mut lines = [reader, writer, ann];
        for (line, method, params) in [
            (0, "run.start", says("u", "hi")),
            (0, "input.respond", respond.clone()),
            (1, "run.start", says("u", "hi")),
            (1, "subscription.subscribe", json!({ "channels": ["lifecycle"] })),
            (2, "input.respond", respond),
        ] {
            let refused = lines[line].command(method, params).await;
            assert_eq!((&refused["type"], &refused["error"]), (&json!("error"), &json!("permission_denied")), "{refused}");
        }
        let [_, _, mut ann] = lines;
        // The thread of another user is one that does not exist.
        let mut bob = Line::open(&of("bob", &[Scope::Read, Scope::Chat]).await).await;
        bob.subscribe(&ROOT).await;
        ann.subscribe(&["lifecycle"]).await;
        let run = ann.begin("u", "hi").await;
        agent.call().await.finish(&whole(&run, "m", "yes")).await;
        assert_eq!(names(&ann.run().await), ["running", "completed"]);
        bob.subscribe(&ROOT).await;
        assert_eq!(bob.command("nothing", json!({})).await["error"], "unknown_command");
        assert_eq!(bob.events, [] as [Value; 0]);

        let none = Client { key: None, user: None, ..may.clone() };
        let secret = may.key.clone().expect("a key");
        let with = |name: &str, value: &str| {
            let mut request = at(&none, "t");
            request.headers_mut().insert(axum::http::HeaderName::try_from(name).expect("a name"), value.parse().expect("a value"));
            request.headers_mut().insert("threadline-user", "ann".parse().expect("a value"));
            request
        };
        for (name, value) in [("x-api-key", secret.clone()), ("sec-websocket-protocol", format!("bearer.{secret}, threadline.langgraph"))] {
            let (_, response) = Socket::connect(with(name, &value)).await.expect("a socket");
            let protocol = response.headers().get("sec-websocket-protocol").map(|value| value.to_str().expect("text"));
            assert_eq!(protocol, (name != "x-api-key").then_some("threadline.langgraph"));
        }
        let ticket = may.post("/v1/socket-tickets", json!({})).await.ok(201);
        let path = format!("t/stream/events?ticket={}", text(&ticket, "ticket"));
        let once = || {
            let mut request = at(&none, "t");
            *request.uri_mut() = format!("ws://{}/langgraph/threads/{path}", none.addr).parse().expect("a URL");
            request
        };
        let (socket, _) = Socket::connect(once()).await.expect("a socket");
        let mut line = Line { socket, newest: 0, events: Vec::new() };
        line.subscribe(&["lifecycle"]).await;
        assert_eq!(names(&line.run().await), ["running", "completed"]);
        // Both have a thread of this id, and a key without a user may mean either.
        for user in ["ann", "bob"] {
            token(server, user).await.post("/langgraph/threads", json!({ "thread_id": "both" })).await.ok(200);
        }
        match Socket::connect(at(&server.project(), "both")).await {
            Err(Error::Http(response)) => assert_eq!(response.status(), 409),
            other => panic!("{:?}", other.map(|_| "a socket")),
        }
        let approver = of("ann", &[Scope::Approve]).await;
        for (request, status) in [(once(), 401), (with("x-api-key", "wrong"), 401), (at(&none, "t"), 401), (at(&approver, "t"), 403)] {
            match Socket::connect(request).await {
                Err(Error::Http(response)) => assert_eq!(response.status(), status),
                other => panic!("{:?}", other.map(|_| "a socket")),
            }
        }
    }
}

everywhere! {
    async fn an_erased_user_starts_nothing_over_a_socket_that_is_open(server: |options| options.with_key("secret")) {
        let operator = server.project();
        operator.put("/v1/agents/a", json!({ "kind": "demo" })).await.ok(200);
        let ann = token(server, "ann").await;
        let mut line = Line::open(&ann).await;
        assert_eq!(line.command("run.start", says("u1", "help")).await["type"], "success");
        operator.delete("/v1/users/ann").await.ok(200);
        line.socket.send(json!({ "id": 9, "method": "run.start", "params": says("u2", "late") })).await;
        let (_, code) = line.socket.closed().await;
        assert_eq!(code, 4_401);
        assert_eq!(operator.get("/v1/threads?userId=ann").await.ok(200)["threads"], json!([]));
    }
}

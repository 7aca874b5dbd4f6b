//! Tests of the WebSocket, with a client from another library.

use std::time::Duration;

use axum::{Router, routing::get};
use futures_util::{SinkExt, StreamExt};
use threadline_http::ws::{Upgrade, protocol::HandOver};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{
        ClientRequestBuilder, Message,
        protocol::{CloseFrame, frame::coding::CloseCode},
    },
};

use super::{super::socket, *};

type Client = WebSocketStream<MaybeTlsStream<TcpStream>>;

struct Server {
    state: ApiState,
    intercept: Intercept,
    address: std::net::SocketAddr,
    _stop: Stop,
}

async fn server() -> Server {
    let mut state = state();
    state.http.close = Duration::from_millis(300);
    let (intercept, listener) = (Intercept::default(), TcpListener::bind("127.0.0.1:0").await.expect("a port"));
    let address = listener.local_addr().expect("an address");
    let (seen, served) = (intercept.clone(), state.clone());
    let open = move |upgrade: Upgrade| socket::open(served.clone(), principal("ann"), seen.plane(), upgrade);
    let (_stop, stopped) = oneshot::channel();
    let router = Router::new().route("/websocket", get(open));
    tokio::spawn(async move {
        tokio::select! {
            served = axum::serve(listener, router) => served,
            _ = stopped => Ok(()),
        }
    });
    Server { state, intercept, address, _stop }
}

impl Server {
    async fn connect(&self) -> Client {
        let uri = format!("ws://{}/websocket", self.address).parse().expect("an address");
        let request = ClientRequestBuilder::new(uri).with_sub_protocol("phoenix").with_sub_protocol("x");
        let (client, response) = connect_async(request).await.expect("a socket");
        assert_eq!(response.headers()["sec-websocket-protocol"], "phoenix");
        client
    }

    /// Connects a client, and joins a topic.
    async fn joined(&self) -> Client {
        let mut client = self.connect().await;
        say(&mut client, r#"["1","1","t:a","phx_join",{}]"#).await;
        assert_eq!(hear(&mut client).await, joined("1", "t:a"));
        client
    }

    /// Waits for the plane's `closed`, and returns its `hand_over`.
    async fn closed(&self) -> HandOver {
        let told = async {
            loop {
                match self.intercept.closed() {
                    Some(hand_over) => return hand_over,
                    None => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), told).await.expect("an end")
    }
}

async fn say(client: &mut Client, text: &str) {
    client.send(Message::text(text)).await.expect("sent");
}

/// Waits for the next frame; the client answers pings meanwhile.
async fn hear(client: &mut Client) -> Value {
    loop {
        match client.next().await.expect("a message").expect("a message") {
            Message::Text(text) => return value(&text),
            Message::Close(close) => panic!("closed: {close:?}"),
            _ => {}
        }
    }
}

/// Waits for the close frame, which the client answers.
async fn hear_close(client: &mut Client) -> Option<CloseFrame> {
    while let Some(Ok(message)) = client.next().await {
        if let Message::Close(close) = message {
            // Only the end of the connection remains to be read.
            while let Some(Ok(_)) = client.next().await {}
            return close;
        }
    }
    None
}

#[tokio::test]
async fn a_draining_server_says_1012_and_knows_whether_everything_arrived() {
    let server = server().await;
    let mut client = server.joined().await;
    server.intercept.push("t:a", 1);
    assert_eq!(hear(&mut client).await, number("1", "t:a", 1));
    server.state.http.draining.cancel();
    let close = hear_close(&mut client).await.expect("a code");
    assert_eq!((close.code, close.reason.as_str()), (CloseCode::Restart, "draining"));
    assert_eq!(server.closed().await, HandOver::Complete);
}

#[tokio::test]
async fn pushes_before_a_disconnect_arrive() {
    let server = server().await;
    let mut client = server.joined().await;
    let outgoing = server.intercept.outgoing("t:a");
    let push = Push { event: "number", payload: "{\"n\":1}".to_owned() };
    assert!(outgoing.send(Outgoing::Push(vec![push])).is_ok());
    assert!(outgoing.send(Outgoing::Hangup(super::super::channel::Disconnect::Failed)).is_ok());
    assert_eq!(hear(&mut client).await, number("1", "t:a", 1));
    assert_eq!(hear_close(&mut client).await.expect("a code").code, CloseCode::Error);
    assert_eq!(server.closed().await, HandOver::Complete);
}

#[tokio::test]
async fn a_client_that_does_not_answer_has_perhaps_not_got_everything() {
    let server = server().await;
    let _silent = server.joined().await;
    server.state.http.draining.cancel();
    assert_eq!(server.closed().await, HandOver::Uncertain);
}

#[tokio::test]
async fn a_client_that_was_going_by_itself_has_perhaps_not_got_everything() {
    let server = server().await;
    let mut client = server.joined().await;
    assert!(
        server.intercept.outgoing("t:a").send(Outgoing::Hangup(super::super::channel::Disconnect::Draining)).is_ok()
    );
    // The client's close crosses the server's.
    client.send(Message::Close(None)).await.expect("sent");
    while let Some(Ok(_)) = client.next().await {}
    assert_eq!(server.closed().await, HandOver::Uncertain);
}

#[tokio::test]
async fn frames_sent_before_a_close_are_processed() {
    for abrupt in [false, true] {
        let server = server().await;
        let mut client = server.joined().await;
        for n in 0..200 {
            let frame = format!(r#"["1","{}","t:a","say",{{"n":{n}}}]"#, n + 2);
            client.feed(Message::text(frame)).await.expect("fed");
        }
        client.feed(Message::text(r#"["1","999","t:a","phx_leave",{}]"#)).await.expect("fed");
        if abrupt {
            client.flush().await.expect("sent");
        } else {
            client.send(Message::Close(None)).await.expect("sent");
        }
        drop(client);
        assert_eq!(server.closed().await, HandOver::Uncertain);
        let taken = server.intercept.taken();
        // After an abrupt disconnect the last frames may be lost, but none in between.
        assert!(abrupt || taken.len() == 200, "{}", taken.len());
        for (n, taken) in taken.iter().enumerate() {
            assert_eq!(*taken, format!("{{\"n\":{n}}}"));
        }
    }
}

#[tokio::test]
async fn pushes_that_cross_a_close_are_taken_and_not_answered() {
    let server = server().await;
    let mut client = server.joined().await;
    server.state.http.draining.cancel();
    // The server is closing; the client answers the close frame only when it reads on.
    tokio::time::timeout(Duration::from_secs(20), async {
        while server
            .state
            .service
            .metrics()
            .text(&threadline_engine::metrics::GaugeSnapshot::default())
            .contains("draining\"} 0")
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("closed");
    say(&mut client, r#"["1","2","t:a","say",{"late":1}]"#).await;
    let close = hear_close(&mut client).await.expect("a code");
    assert_eq!(close.code, CloseCode::Restart);
    server.closed().await;
    assert_eq!(server.intercept.taken(), [r#"{"late":1}"#]);
}

#[tokio::test]
async fn a_client_that_never_pauses_receives_pushes() {
    let server = server().await;
    let (mut sink, mut stream) = server.joined().await.split();
    let talking = tokio::spawn(async move {
        for n in 2.. {
            let frame = format!(r#"["1","{n}","t:a","say",{{"n":{n}}}]"#);
            if sink.send(Message::text(frame)).await.is_err() {
                return;
            }
        }
    });
    server.intercept.push("t:a", 1);
    let heard = async {
        let mut replies = 0;
        loop {
            let message = stream.next().await.expect("a message").expect("a message");
            let Message::Text(text) = message else { continue };
            if value(&text) == number("1", "t:a", 1) {
                return replies;
            }
            replies += 1;
        }
    };
    let replies = tokio::time::timeout(Duration::from_secs(20), heard).await.expect("it is heard");
    // Replies that were already written arrive before the push.
    assert!(replies < 1_000, "{replies}");
    talking.abort();
}

#[tokio::test]
async fn nonsense_is_closed_with_a_code_and_binary_frames_are_nothing() {
    let server = server().await;
    let mut client = server.joined().await;
    client.send(Message::binary(&b"\0\x01\x02"[..])).await.expect("sent");
    say(&mut client, r#"["1","2","t:a","say",{}]"#).await;
    assert_eq!(hear(&mut client).await, ok("1", "2", "t:a"));
    say(&mut client, "nonsense").await;
    assert_eq!(hear_close(&mut client).await.expect("a code").code, CloseCode::Invalid);
    assert_eq!(server.closed().await, HandOver::Complete);
}

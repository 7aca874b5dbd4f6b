//! Socket tickets.

use serde_json::json;
use tokio_tungstenite::tungstenite::{self, client::IntoClientRequest};

use crate::harness::{Client, Options, Server, Socket, everywhere, run, text};

async fn ticket(client: &Client) -> String {
    text(&client.post("/v1/socket-tickets", json!({})).await.ok(201), "ticket").to_owned()
}

async fn open(server: &Server, ticket: &str) -> Result<Socket, u16> {
    let url = format!("ws://{}/v1/socket?ticket={ticket}", server.addr);
    let mut request = url.into_client_request().expect("a request");
    request.headers_mut().insert("sec-websocket-protocol", "threadline.v1".parse().expect("a value"));
    match Socket::connect(request).await {
        Ok((mut socket, _)) => {
            socket.frame("welcome").await;
            Ok(socket)
        }
        Err(tungstenite::Error::Http(response)) => Err(response.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

everywhere! {
    async fn a_ticket_opens_one_socket_with_the_rights_of_its_requester(server: |options| options.with_key("secret")) {
        let (ann, bob) = (server.user("ann"), server.user("bob"));
        ann.thread("t").await;
        bob.thread("u").await;
        let made = ticket(&ann).await;
        assert!(made.starts_with("tlt_"));
        let mut socket = open(server, &made).await.expect("a socket");
        socket.send(json!({ "id": "1", "subscribe": { "threadId": "t" } })).await;
        socket.frame("hello").await;
        socket.send(json!({ "id": "2", "subscribe": { "threadId": "u" } })).await;
        socket.frame("caughtUp").await;
        socket.problem("2", 404, "thread-not-found").await;
        for used in [made.as_str(), "tlt_", "tlt_nothing", "", "secret"] {
            assert_eq!(open(server, used).await.err(), Some(401), "{used}");
        }
        // It is for sockets.
        let fresh = ticket(&ann).await;
        let anonymous = Client { key: None, user: None, ..server.project() };
        anonymous.get(&format!("/v1/threads/t?ticket={fresh}")).await.problem(400, "unknown-parameter");
        Client { key: Some(fresh.clone()), ..anonymous.clone() }.get("/v1/threads/t").await.problem(401, "unauthorized");
        open(server, &fresh).await.expect("it was not used up by that");
    }
}

everywhere! {
    async fn one_of_many_concurrent_uses_of_a_ticket_succeeds(server: |options| options.with_key("secret")) {
        let made = ticket(&server.user("ann")).await;
        let tries = futures_util::future::join_all((0..8).map(|_| open(server, &made))).await;
        assert_eq!(tries.iter().filter(|one| one.is_ok()).count(), 1);
    }
}

#[tokio::test]
async fn a_ticket_expires_after_a_minute_and_with_its_credential() {
    run(Options::memory().with_key("secret").with_manual_clock(), async |server: &Server| {
        let (early, late) = (ticket(&server.user("ann")).await, ticket(&server.user("ann")).await);
        server.pass(59);
        open(server, &early).await.expect("in time");
        server.pass(1);
        assert_eq!(open(server, &late).await.err(), Some(401));
        let made = server.project().post("/v1/keys", json!({ "keyId": "k" })).await.ok(201);
        let backend = Client { key: Some(text(&made, "key").to_owned()), ..server.user("ann") };
        let of_a_key = ticket(&backend).await;
        server.project().delete("/v1/keys/k").await.ok(200);
        assert_eq!(open(server, &of_a_key).await.err(), Some(401));
    })
    .await;
}

//! Connections that are made, and connections that must not be made.

use std::sync::Mutex;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;

fn public() -> EgressPolicy {
    EgressPolicy::Public(Vec::new())
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

/// Resolver that answers with one list after the other, then always with the last one.
fn answers(lists: &[&[&str]]) -> Lookup {
    let mut lists: Vec<Vec<_>> = lists.iter().map(|list| list.iter().map(|text| ip(text)).collect()).collect();
    lists.reverse();
    let lists = Mutex::new(lists);
    Arc::new(move |_| {
        let mut lists = lists.lock().expect("no panic");
        let now = if lists.len() > 1 { lists.pop() } else { lists.last().cloned() };
        Box::pin(async move { Ok(now.unwrap_or_default()) })
    })
}

/// Starts an endpoint on this machine that answers "hi". Returns its port and a count of its connections.
async fn endpoint() -> (u16, Arc<Mutex<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (port, seen) = (listener.local_addr().expect("an address").port(), Arc::new(Mutex::new(0)));
    let counter = seen.clone();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.expect("a connection");
            *counter.lock().expect("no panic") += 1;
            let _ = socket.read(&mut [0; 1024]).await;
            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi").await;
        }
    });
    (port, seen)
}

async fn get(outbound: &EgressClient, url: &str) -> Result<String, Option<Refused>> {
    let request = outbound.request(Method::GET, url).map_err(Some)?;
    match request.send().await {
        Ok(answer) => Ok(answer.text().await.expect("text")),
        Err(error) => Err(Refused::cause_of(&error).cloned()),
    }
}

#[test]
fn a_url_is_read_as_the_connection_reads_it() {
    for (host, what) in [
        ("127.0.0.1", "loopback"),
        ("127.0.0.1.", "loopback"),
        ("127.1", "loopback"),
        ("2130706433", "loopback"),
        ("0x7f000001", "loopback"),
        ("0x7f.1", "loopback"),
        ("0177.0.0.01", "loopback"),
        ("017700000001", "loopback"),
        ("%31%32%37.0.0.1", "loopback"),
        ("\u{ff11}27.0.0.1", "loopback"),
        ("127\u{3002}0\u{3002}0\u{3002}1", "loopback"),
        ("localhost", "loopback"),
        ("LocalHost.", "loopback"),
        ("a.localhost", "loopback"),
        ("0", "this network"),
        ("10.1", "private"),
        ("169.254.169.254", "link-local"),
        ("0xa9fea9fe", "link-local"),
        ("[::1]", "loopback"),
        ("[::]", "unspecified"),
        ("[0:0:0:0:0:ffff:7f00:1]", "loopback"),
        ("[::ffff:169.254.169.254]", "link-local"),
        ("[64:ff9b::10.0.0.1]", "private"),
        ("[2002:7f00:1::]", "6to4"),
        ("[fe80::1]", "link-local"),
        ("[fd00:ec2::254]", "private"),
    ] {
        for url in [format!("http://{host}/x"), format!("https://{host}:8000/?a#b"), format!("http:\\\\{host}")] {
            let refused = public().read(&url).expect_err(&url);
            assert!(matches!(refused, Refused::Network { what: found, .. } if found == what), "{url}: {refused}");
            assert!(EgressPolicy::Anywhere.read(&url).is_ok(), "{url}");
        }
    }
    for url in
        ["https://agents.example/x", "http://8.8.8.8", "http://[2606:4700::1111]:1024/", "http://localhost.example/"]
    {
        assert!(public().read(url).is_ok(), "{url}");
    }
    // A URL that does not parse to an address is refused.
    for url in ["http://[fe80::1%25eth0]/", "http://127.0.0.256/", "http://0x7g/..", "http://", "127.0.0.1", "data:x"] {
        match public().read(url) {
            Err(Refused::NotAnAddress(_)) => {}
            other => assert!(url.contains("0x7g") && other.is_ok(), "{url}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn an_address_that_is_not_public_is_not_connected_to() {
    let (port, seen) = endpoint().await;
    let guarded = EgressClient::with_lookup(public(), answers(&[&["127.0.0.1"]]));
    for host in ["127.0.0.1", "agents.example", "localhost", "[::ffff:127.0.0.1]"] {
        let refused = get(&guarded, &format!("http://{host}:{port}/")).await.expect_err(host);
        assert!(matches!(&refused, Some(Refused::Network { what: "loopback", .. })), "{host}: {refused:?}");
    }
    assert_eq!(*seen.lock().expect("no panic"), 0, "connections");
    // The same endpoint, with a client that is allowed to connect.
    let open = EgressClient::new(EgressPolicy::Anywhere);
    assert_eq!(get(&open, &format!("http://127.0.0.1:{port}/")).await, Ok("hi".to_owned()));
    let allowed = EgressPolicy::Public(vec![Network::Loopback]);
    let allowed = EgressClient::with_lookup(allowed, answers(&[&["127.0.0.1"]]));
    for host in ["agents.example", "127.0.0.1", "localhost"] {
        assert_eq!(get(&allowed, &format!("http://{host}:{port}/")).await, Ok("hi".to_owned()));
    }
    assert_eq!(*seen.lock().expect("no panic"), 4, "connections");
}

#[tokio::test]
async fn a_name_that_means_something_else_a_moment_later_gains_nothing() {
    let (port, seen) = endpoint().await;
    let url = format!("http://agents.example:{port}/");
    // The first lookup is public, as for a check ahead of the connection; later lookups lead to this machine.
    let lookup = answers(&[&["2001:db8::1"], &["127.0.0.1"]]);
    let guarded = EgressClient::with_lookup(public(), lookup);
    assert_eq!(guarded.check_url(&url), Ok(()));
    for _ in 0..3 {
        assert!(matches!(get(&guarded, &url).await, Err(Some(Refused::Network { .. }))));
    }
    assert_eq!(*seen.lock().expect("no panic"), 0, "connections");
}

#[tokio::test]
async fn of_several_addresses_only_those_are_left_that_may_be_gone_to() {
    let resolver = |lists| Resolver { reach: public(), lookup: answers(lists) };
    let found = |resolver: Resolver| async move {
        let found = resolver.resolve("agents.example".parse().expect("a name")).await;
        found.map(|found| found.map(|address| address.ip()).collect::<Vec<_>>()).map_err(|error| error.to_string())
    };
    let mixed = resolver(&[&["10.0.0.1", "8.8.8.8", "::1", "2606:4700::1111", "::ffff:127.0.0.1"]]);
    assert_eq!(found(mixed).await, Ok(vec![ip("8.8.8.8"), ip("2606:4700::1111")]));
    assert_eq!(found(resolver(&[&[]])).await, Ok(vec![]), "no address is not a refusal");
    let refused = found(resolver(&[&["10.0.0.1", "fe80::1"]])).await.expect_err("nothing is left");
    assert!(refused.contains("agents.example is not on the public internet"), "{refused}");
}

//! Tests of the proxy, in each of its modes.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use threadline_backing::{Cut, Flow, Proxy, Way};

/// Starts a server that sends received bytes back.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut back = stream.try_clone().expect("cloned");
                let _ = io::copy(&mut &stream, &mut back);
                let _ = back.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    port
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
    stream
}

/// Sends bytes, and waits for as many. Returns the elapsed time.
fn round(stream: &mut TcpStream, text: &[u8]) -> io::Result<Duration> {
    let began = Instant::now();
    let mut sending = stream.try_clone()?;
    let out = text.to_vec();
    let sender = thread::spawn(move || sending.write_all(&out));
    let mut back = vec![0; text.len()];
    stream.read_exact(&mut back)?;
    sender.join().expect("no panic")?;
    assert_eq!(back, text, "bytes and their order are kept");
    Ok(began.elapsed())
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 % 251) as u8).collect()
}

#[test]
fn bytes_go_through_and_ends_are_passed_on() {
    let proxy = Proxy::start(echo());
    let mut stream = connect(&proxy);
    round(&mut stream, &pattern(3_000_000)).expect("through");
    stream.shutdown(std::net::Shutdown::Write).expect("half closed");
    assert_eq!(stream.read(&mut [0; 9]).expect("an end"), 0);
    assert_eq!((proxy.connections(), proxy.moved()), (1, 6_000_000));
}

#[test]
fn a_delay_is_added_and_keeps_the_order() {
    let proxy = Proxy::seeded(echo(), 7);
    let mut stream = connect(&proxy);
    round(&mut stream, b"before").expect("through");
    proxy.set(Way::ToClient, Flow::Delay(Duration::from_millis(80), Duration::from_millis(40)));
    let took = round(&mut stream, b"late").expect("through");
    assert!(took >= Duration::from_millis(80), "{took:?}");
    round(&mut stream, &pattern(500_000)).expect("in order");
    proxy.heal();
    round(&mut stream, b"after").expect("through");
}

#[test]
fn bandwidth_is_limited() {
    let proxy = Proxy::start(echo());
    proxy.set(Way::ToServer, Flow::Bandwidth(500_000));
    let took = round(&mut connect(&proxy), &pattern(200_000)).expect("through");
    assert!(took >= Duration::from_millis(300), "{took:?}");
}

#[test]
fn stalled_bytes_arrive_once_the_link_is_restored() {
    let proxy = Proxy::start(echo());
    let mut stream = connect(&proxy);
    round(&mut stream, b"before").expect("through");
    proxy.set(Way::Both, Flow::Stall);
    let mut fresh = connect(&proxy);
    stream.write_all(b"held").expect("taken");
    fresh.write_all(b"held").expect("taken");
    for stream in [&mut stream, &mut fresh] {
        stream.set_read_timeout(Some(Duration::from_millis(150))).expect("set");
        let waited = stream.read(&mut [0; 9]).expect_err("nothing moves");
        assert!(matches!(waited.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{waited}");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
    }
    proxy.heal();
    for stream in [&mut stream, &mut fresh] {
        let mut back = [0; 4];
        stream.read_exact(&mut back).expect("it comes");
        assert_eq!(&back, b"held");
    }
}

#[test]
fn connections_are_closed_or_reset() {
    let proxy = Proxy::start(echo());
    let (mut first, mut second) = (connect(&proxy), connect(&proxy));
    for stream in [&mut first, &mut second] {
        round(stream, b"before").expect("through");
    }
    proxy.cut(Cut::Fin);
    assert_eq!(first.read(&mut [0; 9]).expect("an end"), 0);
    assert_eq!(second.read(&mut [0; 9]).expect("an end"), 0);
    let mut third = connect(&proxy);
    round(&mut third, b"new ones go through").expect("through");
    proxy.cut(Cut::Reset);
    assert_eq!(third.read(&mut [0; 9]).expect_err("a reset").kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_cut_after_some_bytes_tears_what_is_on_its_way() {
    let proxy = Proxy::start(echo());
    for (way, how) in [(Way::ToServer, Cut::Fin), (Way::ToClient, Cut::Fin), (Way::ToClient, Cut::Reset)] {
        let mut stream = connect(&proxy);
        round(&mut stream, b"before").expect("through");
        proxy.cut_after(way, 40_001, how);
        let mut sending = stream.try_clone().expect("cloned");
        // The connection may be cut while the bytes are being sent.
        let sender = thread::spawn(move || drop(sending.write_all(&pattern(100_000))));
        let mut back = Vec::new();
        let ended = stream.read_to_end(&mut back);
        sender.join().expect("no panic");
        assert!(back.len() <= 40_001, "{} bytes came back: {way:?}", back.len());
        assert_eq!(back, pattern(100_000)[..back.len()]);
        if how == Cut::Reset {
            assert_eq!(ended.expect_err("a reset").kind(), ErrorKind::ConnectionReset);
        }
        round(&mut connect(&proxy), &pattern(100_000)).expect("once only");
    }
}

#[test]
fn connections_are_refused_until_it_is_healed() {
    let proxy = Proxy::start(echo());
    let mut open = connect(&proxy);
    round(&mut open, b"before").expect("through");
    proxy.refuse();
    let deadline = Instant::now() + Duration::from_secs(5);
    while TcpStream::connect(proxy.address()).map_err(|error| error.kind()).err() != Some(ErrorKind::ConnectionRefused)
    {
        assert!(Instant::now() < deadline, "the proxy still accepts");
        thread::sleep(Duration::from_millis(2));
    }
    round(&mut open, b"still open").expect("through");
    proxy.partition();
    assert_eq!(open.read(&mut [0; 9]).expect_err("cut").kind(), ErrorKind::ConnectionReset);
    proxy.heal();
    let mut again = loop {
        match TcpStream::connect(proxy.address()) {
            Ok(stream) => break stream,
            Err(_) => assert!(Instant::now() < deadline, "the proxy still refuses"),
        }
    };
    round(&mut again, b"after").expect("through");
}

#[test]
fn a_server_that_is_not_there_resets() {
    let port = threadline_backing::ports::free_port();
    let proxy = Proxy::start(port);
    let mut stream = connect(&proxy);
    assert_eq!(stream.read(&mut [0; 9]).expect_err("a reset").kind(), ErrorKind::ConnectionReset);
}

//! Machines that a request has passed, as header fields of proxies name them: `Forwarded` (RFC 7239) and the earlier
//! `X-Forwarded-…`.

use std::net::IpAddr;

use axum::http::HeaderMap;

use crate::origins::is_loopback_authority;

/// Header fields with one name each, or a list of them.
const LISTS: [&str; 11] = [
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Real-IP",
    "X-Original-Forwarded-For",
    "X-Original-Host",
    "X-Client-IP",
    "X-Cluster-Client-IP",
    "X-Envoy-External-Address",
    "CF-Connecting-IP",
    "Fly-Client-IP",
    "True-Client-IP",
];
/// The header field of parameters: `for=192.0.2.1;host=example.com, for=…`.
const FORWARDED: &str = "Forwarded";
/// Parameters of [`FORWARDED`] that name a machine.
const NAMING: [&str; 3] = ["for", "host", "by"];
/// Longest part of a foreign value that is repeated.
const SHOWN_CHARS: usize = 80;

/// First name of another machine in these header fields, and the field that contains it. A value that cannot be read,
/// or is hidden (`unknown`, `_proxy`), names another machine. An empty field names none.
pub fn another_machine(headers: &HeaderMap) -> Option<(&'static str, String)> {
    let values = |name: &'static str| {
        let values = headers.get_all(name).iter();
        values.map(move |value| (name, String::from_utf8_lossy(value.as_bytes()).into_owned()))
    };
    let listed = LISTS.into_iter().flat_map(values);
    let listed =
        listed.flat_map(|(name, value)| value.split(',').map(|one| (name, one.to_owned())).collect::<Vec<_>>());
    let named = values(FORWARDED).flat_map(|(name, value)| {
        // A part without a name is malformed, and may name any machine.
        let pairs = value.split([',', ';']).map(|pair| pair.split_once('=').unwrap_or((NAMING[0], pair)));
        let naming = pairs.filter(|(key, _)| NAMING.iter().any(|it| it.eq_ignore_ascii_case(key.trim())));
        naming.map(|(_, one)| (name, one.trim().trim_matches('"').to_owned())).collect::<Vec<_>>()
    });
    let mut foreign = listed.chain(named).filter(|(_, one)| !one.trim().is_empty() && !is_this_machine(one.trim()));
    foreign.next().map(|(name, one)| (name, one.trim().chars().take(SHOWN_CHARS).collect()))
}

/// True if a node name, with or without a port, is this machine.
fn is_this_machine(node: &str) -> bool {
    // A bare IPv6 address has colons and no brackets, and one of IPv4 may be written as one of IPv6.
    let bare = node.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(node, |(address, _)| address);
    match bare.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => is_loopback_authority(node),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_known_in_every_form() {
        for own in
            ["127.0.0.1", "127.8.9.10:80", "::1", "[::1]", "[::1]:80", "::ffff:127.0.0.1", "localhost:1", "a.localhost"]
        {
            assert!(is_this_machine(own), "{own}");
        }
        for other in
            ["192.0.2.1", "::ffff:192.0.2.1", "[2001:db8::1]:80", "unknown", "_x", "127.0.0.1.nip.io", "0.0.0.0", "1"]
        {
            assert!(!is_this_machine(other), "{other}");
        }
    }

    #[test]
    fn repeated_headers_are_shortened_and_unreadable_ones_count_as_foreign() {
        let named = |name: &'static str, value: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.try_into().expect("a value"));
            another_machine(&headers).map(|(_, value)| value)
        };
        assert_eq!(named("x-real-ip", b"\xff").as_deref(), Some("\u{fffd}"));
        assert_eq!(named("x-forwarded-host", "x".repeat(500).as_bytes()).map(|value| value.len()), Some(SHOWN_CHARS));
        for empty in [&b""[..], b" , ", b"127.0.0.1,"] {
            assert_eq!(named("x-forwarded-for", empty), None);
        }
        // Parameters that name no machine do not count.
        assert_eq!(named("forwarded", b"proto=https;secret=\"192.0.2.1\""), None);
        for malformed in [&b"203.0.113.9"[..], b"for", b"proto=https;203.0.113.9"] {
            assert!(named("forwarded", malformed).is_some(), "{malformed:?}");
        }
        for name in LISTS {
            assert_eq!(
                named(name.to_ascii_lowercase().leak(), b"203.0.113.9").as_deref(),
                Some("203.0.113.9"),
                "{name}"
            );
        }
    }
}

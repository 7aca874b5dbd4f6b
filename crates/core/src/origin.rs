//! Origins of web pages (RFC 6454), and the origins that are allowed.

use std::{collections::HashSet, fmt, str::FromStr};

/// Origin: scheme, host and port. The default port of a scheme is left out, as browsers do.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    scheme: String,
    host: String,
    port: Option<u16>,
}

fn usual_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

/// Host and port of an authority; `None` if the text is no authority, or holds more than host and port.
fn authority(text: &str) -> Option<(String, Option<u16>)> {
    // A colon inside brackets belongs to the address.
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().ok()?)),
        _ => (text, None),
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let good = match bare {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)),
    };
    good.then(|| (host.to_ascii_lowercase(), port))
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write it like https://app.example.com or http://localhost:3000, without a path".to_owned();
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let scheme = scheme.to_ascii_lowercase();
        if !scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        {
            return Err(wrong());
        }
        let (host, port) = authority(rest).ok_or_else(wrong)?;
        let port = port.filter(|port| Some(*port) != usual_port(&scheme));
        Ok(Self { scheme, host, port })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl Origin {
    /// True if a page of this origin was served by the host of this `Host` header. The scheme is not compared: behind a
    /// proxy that terminates TLS the server does not know it.
    pub fn is_at(&self, host: &str) -> bool {
        let usual = usual_port(&self.scheme);
        authority(host).is_some_and(|(name, port)| name == self.host && port.or(usual) == self.port.or(usual))
    }
}

/// Origins whose pages may call from a browser, in addition to the pages that the server's own host serves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllowedOrigins {
    any: bool,
    listed: HashSet<Origin>,
}

impl AllowedOrigins {
    /// Text that allows every origin.
    pub const ANY: &'static str = "*";

    /// Parses a list of origins. Fails with an explanation if a text is neither an origin nor [`Self::ANY`].
    pub fn parse<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Self, String> {
        let mut allowed = Self::default();
        for text in texts {
            match text.as_ref() {
                Self::ANY => allowed.any = true,
                text => drop(allowed.listed.insert(text.parse()?)),
            }
        }
        Ok(allowed)
    }

    /// True if no other origin is allowed.
    pub fn is_empty(&self) -> bool {
        !self.any && self.listed.is_empty()
    }

    /// True if every origin is allowed.
    pub fn is_any(&self) -> bool {
        self.any
    }

    /// True if pages with this `Origin` header are allowed.
    pub fn contains(&self, origin: &str) -> bool {
        self.any || origin.parse().is_ok_and(|origin| self.listed.contains(&origin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_one_form() {
        for (text, form) in [
            ("https://app.example.com", "https://app.example.com"),
            ("HTTPS://App.Example.com:443", "https://app.example.com"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://[::1]:80", "http://[::1]"),
            ("capacitor://localhost", "capacitor://localhost"),
        ] {
            assert_eq!(text.parse::<Origin>().map(|origin| origin.to_string()), Ok(form.to_owned()));
        }
        for text in
            ["", "null", "*", "app.example.com", "https://", "https://a/", "https://u@a", "https://a:x", "https://[a]"]
        {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_the_same_scheme_host_and_port_is_allowed() {
        let allowed = AllowedOrigins::parse(["https://app.example.com", "http://localhost:3000"]).expect("origins");
        assert!(allowed.contains("https://app.example.com") && allowed.contains("http://localhost:3000"));
        for foreign in [
            "http://app.example.com",
            "https://app.example.com:8443",
            "https://app.example.com.evil.example",
            "https://xapp.example.com",
            "null",
            "",
        ] {
            assert!(!allowed.contains(foreign), "{foreign}");
        }
        let any = AllowedOrigins::parse(["*"]).expect("origins");
        assert!(any.contains("null") && any.is_any() && !any.is_empty());
        assert!(AllowedOrigins::default().is_empty() && AllowedOrigins::parse(["x"]).is_err());
    }

    #[test]
    fn the_same_host_is_known_with_and_without_its_usual_port() {
        let at = |origin: &str, host: &str| origin.parse::<Origin>().expect("an origin").is_at(host);
        assert!(at("https://a.example", "a.example") && at("https://a.example", "A.example:443"));
        assert!(at("http://a.example:8080", "a.example:8080"));
        assert!(!at("https://a.example", "a.example:8443") && !at("https://a.example:8443", "a.example"));
        assert!(!at("https://b.example", "a.example") && !at("https://a.example", ""));
    }
}

//! Requests of the server to addresses that clients chose.
//!
//! A server runs inside a network, and a client that names an address for the server to call could otherwise reach the
//! private parts of that network (SSRF). The promise: a [`EgressPolicy::Public`] client connects to public addresses and to
//! networks that the operator allows, and to no others, however the address is written, whatever its name resolves to,
//! and whenever it is resolved.

mod networks;

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
};

use futures_util::future::BoxFuture;
use reqwest::{
    Client, Method, RequestBuilder, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect,
};
use threadline_core::limits::AGENT_CONNECT_TIMEOUT;

pub use networks::{Network, NotANetwork, reserved};

/// Resolver of names to addresses. Tests pass their own.
pub type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// Addresses to which a client may connect.
#[derive(Clone)]
pub enum EgressPolicy {
    /// All addresses: for URLs that the operator has configured.
    Anywhere,
    /// Public addresses, and these networks.
    Public(Vec<Network>),
}

/// Reason why an address is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The URL is not the address of an HTTP endpoint.
    #[error("not a valid URL: {0}")]
    NotAnAddress(String),
    /// TLS is not available, so that this machine can make no connection.
    #[error("cannot set up TLS: {0}")]
    NoTls(String),
    /// The port is that of another kind of service than HTTP.
    #[error("port {0} is below 1024, and neither 80 nor 443")]
    Port(u16),
    /// The address, or every address of its name, is neither public nor allowed.
    #[error("{host} is not on the public internet ({what})")]
    Network {
        /// Host as written in the URL.
        host: String,
        /// Kind of the refused address.
        what: &'static str,
    },
}

impl Refused {
    /// Finds the refusal among the causes of a failed request.
    pub fn cause_of(error: &reqwest::Error) -> Option<&Self> {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(error) = cause {
            if let Some(refused) = error.downcast_ref() {
                return Some(refused);
            }
            cause = error.source();
        }
        None
    }
}

impl EgressPolicy {
    /// Checks an address. A refusal is the kind of the address.
    fn check(&self, address: IpAddr) -> Result<(), &'static str> {
        match (self, reserved(address)) {
            (Self::Anywhere, _) | (_, None) => Ok(()),
            (Self::Public(allowed), Some(_)) if allowed.iter().any(|network| network.holds(address)) => Ok(()),
            (Self::Public(_), Some(what)) => Err(what),
        }
    }

    /// Parses the URL once for the check and the request, so that both use the same host.
    fn read(&self, url: &str) -> Result<Url, Refused> {
        let url = Url::parse(url).map_err(|error| Refused::NotAnAddress(error.to_string()))?;
        let host = url.host_str().ok_or_else(|| Refused::NotAnAddress("it has no host".to_owned()))?;
        // The parser has turned decimal, octal, hexadecimal and shortened IPv4 into four numbers, as the connection
        // does.
        let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let address = match literal.parse::<IpAddr>() {
            Ok(address) => Some(address),
            // Names of this machine (RFC 6761), whatever a resolver answers.
            Err(_) if is_localhost(host) => Some(IpAddr::from([127, 0, 0, 1])),
            Err(_) => None,
        };
        if let Some(Err(what)) = address.map(|address| self.check(address)) {
            return Err(Refused::Network { host: host.to_owned(), what });
        }
        let ports = url.port().filter(|port| matches!(self, Self::Public(_)) && *port < 1_024);
        if let Some(port) = ports.filter(|port| !matches!(port, 80 | 443)) {
            return Err(Refused::Port(port));
        }
        Ok(url)
    }
}

fn is_localhost(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

/// HTTP client that connects only to allowed addresses. Cheap to clone.
///
/// - No redirects: a redirect would carry the request, and perhaps a key, to another host.
/// - No proxies: a proxy from the environment (`HTTPS_PROXY`, …) is meant for other programs. A proxy would see the
///   request, and would connect without this client's checks.
/// - One connection for each request: an idle connection may be closed by the peer just when the next request is sent,
///   and not every request can be sent twice.
/// - No timeout for the complete request: the caller must set one.
#[derive(Clone)]
pub struct EgressClient {
    reach: EgressPolicy,
    lookup: Lookup,
    /// Created on first use: reading the machine's certificates takes a while.
    client: Arc<OnceLock<Client>>,
}

impl fmt::Debug for EgressClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outbound")
    }
}

impl EgressClient {
    /// Makes a client with this reach and the machine's resolver.
    pub fn new(reach: EgressPolicy) -> Self {
        Self::with_lookup(reach, Arc::new(|name| Box::pin(system(name))))
    }

    /// Makes a client with another resolver, for names that must be public.
    pub fn with_lookup(reach: EgressPolicy, lookup: Lookup) -> Self {
        Self { reach, lookup, client: Arc::default() }
    }

    /// Creates the HTTP client ahead of its first use. Fails if the machine's TLS cannot be set up.
    pub fn prepare(&self) -> Result<(), reqwest::Error> {
        self.client().map(drop)
    }

    fn client(&self) -> Result<&Client, reqwest::Error> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = Client::builder()
            .redirect(redirect::Policy::none())
            .no_proxy()
            .retry(reqwest::retry::never())
            .pool_max_idle_per_host(0)
            .connect_timeout(AGENT_CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .user_agent(concat!("threadline/", env!("CARGO_PKG_VERSION")));
        let client = match &self.reach {
            EgressPolicy::Anywhere => client,
            EgressPolicy::Public(_) => {
                client.dns_resolver(Resolver { reach: self.reach.clone(), lookup: self.lookup.clone() })
            }
        };
        let client = client.build()?;
        Ok(self.client.get_or_init(|| client))
    }

    /// Checks a URL without resolving a name: for the moment at which it is stored. A name is resolved only when the
    /// connection is made, because its addresses may have changed by then.
    pub fn check_url(&self, url: &str) -> Result<(), Refused> {
        self.reach.read(url).map(drop)
    }

    /// Starts a request to this URL. A literal address is checked here, since no resolver sees it; the addresses of a
    /// name are checked when it is resolved, and the connection uses exactly those: [`Refused::cause_of`] finds the
    /// refusal.
    pub fn request(&self, method: Method, url: &str) -> Result<RequestBuilder, Refused> {
        let url = self.reach.read(url)?;
        let client = self.client().map_err(|error| Refused::NoTls(error.to_string()))?;
        Ok(client.request(method, url))
    }
}

/// Resolver that drops addresses to which a connection is not allowed.
struct Resolver {
    reach: EgressPolicy,
    lookup: Lookup,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (reach, looking) = (self.reach.clone(), (self.lookup)(name.as_str().to_owned()));
        Box::pin(async move {
            let found = looking.await?;
            let mut refused = None;
            let mut addresses = Vec::with_capacity(found.len());
            for address in found {
                match reach.check(address) {
                    // The port of the URL applies.
                    Ok(()) => addresses.push(SocketAddr::new(address, 0)),
                    Err(what) => refused = Some(Refused::Network { host: name.as_str().to_owned(), what }),
                }
            }
            match refused {
                Some(refused) if addresses.is_empty() => Err(refused.into()),
                _ => Ok(Box::new(addresses.into_iter()) as Addrs),
            }
        })
    }
}

async fn system(name: String) -> io::Result<Vec<IpAddr>> {
    Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
}

#[cfg(test)]
mod tests;

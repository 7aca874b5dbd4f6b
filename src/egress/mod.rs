//! Requests of the server to addresses that somebody else chose.
//!
//! A server stands inside a network, and who may name an address for it to call could otherwise reach what that network
//! keeps to itself (SSRF). The promise: a [`Reach::Public`] client connects to public addresses and to what the operator
//! allows, and to nothing else, however the address is written and whatever its name resolves to, and when.

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

pub use networks::{Network, NotANetwork, reserved};

use crate::domain::limits::AGENT_CONNECT_TIMEOUT;

/// How names become addresses. Tests put their own here.
pub type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// Where a client may go.
#[derive(Clone)]
pub enum Reach {
    /// Anywhere: for addresses that are the operator's own word.
    Anywhere,
    /// To public addresses, and into these networks.
    Public(Vec<Network>),
}

/// An address that is not gone to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It cannot be read as the address of an HTTP endpoint.
    #[error("it is not an address: {0}")]
    NotAnAddress(String),
    /// No connection could ever be made from this machine.
    #[error("TLS cannot be set up: {0}")]
    NoTls(String),
    /// All that its name stands for, or itself, is not public and not allowed.
    #[error("{host} is not on the public internet ({what})")]
    Network {
        /// The host as it is called in the URL.
        host: String,
        /// What kind of address it is.
        what: &'static str,
    },
}

impl Refused {
    /// The refusal that a request has failed with, if that is why.
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

impl Reach {
    /// Whether this address may be connected to; what it is if not.
    fn check(&self, address: IpAddr) -> Result<(), &'static str> {
        match (self, reserved(address)) {
            (Self::Anywhere, _) | (_, None) => Ok(()),
            (Self::Public(allowed), Some(_)) if allowed.iter().any(|network| network.holds(address)) => Ok(()),
            (Self::Public(_), Some(what)) => Err(what),
        }
    }

    /// The URL, read once for the check and the request, so that both mean the same host.
    fn read(&self, url: &str) -> Result<Url, Refused> {
        let url = Url::parse(url).map_err(|error| Refused::NotAnAddress(error.to_string()))?;
        let host = url.host_str().ok_or_else(|| Refused::NotAnAddress("it has no host".to_owned()))?;
        // Decimal, octal, hexadecimal and shortened IPv4 have become four numbers here, as in the connection.
        let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let address = match literal.parse::<IpAddr>() {
            Ok(address) => Some(address),
            // Names of this machine (RFC 6761), whatever a resolver says.
            Err(_) if is_localhost(host) => Some(IpAddr::from([127, 0, 0, 1])),
            Err(_) => None,
        };
        if let Some(Err(what)) = address.map(|address| self.check(address)) {
            return Err(Refused::Network { host: host.to_owned(), what });
        }
        Ok(url)
    }
}

fn is_localhost(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

/// An HTTP client that goes only where it may. Cheap to clone.
///
/// - No redirects: one would carry the request, and perhaps a key, to somebody else.
/// - No proxies: what stands in the environment for other programs (`HTTPS_PROXY`, …) does not get to see it either, and
///   would connect on its own account, to where this client must not.
/// - A connection for each request: one that is kept may be closed by the other side just when the next request is sent,
///   and not every request can be sent twice.
/// - No limit to the whole time; whoever asks knows what is too long.
#[derive(Clone)]
pub struct Outbound {
    reach: Reach,
    lookup: Lookup,
    /// Made when it is needed: reading the machine's certificates takes a while.
    client: Arc<OnceLock<Client>>,
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outbound")
    }
}

impl Outbound {
    /// A client of this reach, with the machine's own way to look names up.
    pub fn new(reach: Reach) -> Self {
        Self::with_lookup(reach, Arc::new(|name| Box::pin(system(name))))
    }

    /// The same with another way to look names up, if they are to be public.
    pub fn with_lookup(reach: Reach, lookup: Lookup) -> Self {
        Self { reach, lookup, client: Arc::default() }
    }

    /// Makes it ready for use; an error if the machine's TLS cannot be set up.
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
            Reach::Anywhere => client,
            Reach::Public(_) => {
                client.dns_resolver(Resolver { reach: self.reach.clone(), lookup: self.lookup.clone() })
            }
        };
        let client = client.build()?;
        Ok(self.client.get_or_init(|| client))
    }

    /// What is wrong with a URL as far as it shows without asking for a name: for when it is written down. A name is
    /// looked up when the connection is made, and only then, because it may mean something else by that time.
    pub fn check_url(&self, url: &str) -> Result<(), Refused> {
        self.reach.read(url).map(drop)
    }

    /// A request to this address. One that stands for itself is judged here, since nobody looks it up; what a name
    /// stands for is judged when it is looked up, and exactly that is connected to: [`Refused::cause_of`] tells.
    pub fn request(&self, method: Method, url: &str) -> Result<RequestBuilder, Refused> {
        let url = self.reach.read(url)?;
        let client = self.client().map_err(|error| Refused::NoTls(error.to_string()))?;
        Ok(client.request(method, url))
    }
}

/// Leaves out what must not be connected to.
struct Resolver {
    reach: Reach,
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
                    // The port is that of the URL.
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

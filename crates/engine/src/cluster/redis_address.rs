//! URLs of Redis that name several servers: `SCHEME://USER:PASSWORD@HOST1:PORT,HOST2:PORT/PATH`.

use redis::Client;

/// Problem of a URL that names several servers.
#[derive(Debug, thiserror::Error)]
pub enum AddressProblem {
    /// The part after the sentinels is missing.
    #[error("no name of a master after the sentinels")]
    NoName,
    /// The part after the sentinels is no name.
    #[error("{0:?} is no name of a master: letters, digits, `.`, `-` and `_` are allowed")]
    Name(String),
    /// A server has no host, or an invalid port.
    #[error("{0:?} is no address of a server")]
    Server(String),
    /// The last part is no number.
    #[error("{0:?} is no number of a database")]
    Database(String),
    /// A cluster has one database.
    #[error("{0:?} after the servers of a cluster, which has no databases")]
    Path(String),
    /// User or password cannot be decoded.
    #[error("the user or the password is not percent-encoded")]
    Credentials,
}

/// The parts of such a URL.
pub(super) struct ServerList {
    /// `redis`, or `rediss` if the servers use TLS.
    pub scheme: &'static str,
    /// User and password as they are in the URL, up to the `@`.
    pub credentials: String,
    /// Host and port of each server, at least one.
    pub servers: Vec<String>,
    /// Part after the servers and a slash, `None` without a slash.
    pub path: Option<String>,
}

impl ServerList {
    /// Reads a URL whose scheme ends with `kind`; `None` for another scheme. Servers have this port if they name none.
    pub fn parse(url: &str, kind: &str, port: u16) -> Option<Result<Self, AddressProblem>> {
        let (scheme, rest) = url.split_once("://")?;
        let scheme = match scheme.split_once('+')? {
            ("redis", found) if found == kind => "redis",
            ("rediss", found) if found == kind => "rediss",
            _ => return None,
        };
        Some(Self::read(scheme, rest, port))
    }

    fn read(scheme: &'static str, rest: &str, port: u16) -> Result<Self, AddressProblem> {
        // A password may contain an `@`.
        let (credentials, place) = rest.rfind('@').map_or(("", rest), |at| rest.split_at(at + 1));
        if credentials.contains(['/', '?', '#']) || Client::open(format!("redis://{credentials}host/")).is_err() {
            return Err(AddressProblem::Credentials);
        }
        let (servers, path) = place.split_once('/').map_or((place, None), |(servers, path)| (servers, Some(path)));
        let with_port = |server: &str| {
            let invalid = || AddressProblem::Server(server.to_owned());
            let address = match server.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
                Some((_, port)) if port.parse::<u16>().is_err() => return Err(invalid()),
                Some(_) => server.to_owned(),
                None => format!("{server}:{port}"),
            };
            Client::open(format!("{scheme}://{address}/")).map_err(|_| invalid())?;
            Ok(address)
        };
        Ok(Self {
            scheme,
            credentials: credentials.to_owned(),
            servers: servers.split(',').map(with_port).collect::<Result<_, _>>()?,
            path: path.map(str::to_owned),
        })
    }

    /// URL of one of the servers, or of another one of the same kind.
    pub fn url(&self, server: &str, database: &str) -> String {
        format!("{}://{}{server}/{database}", self.scheme, self.credentials)
    }
}

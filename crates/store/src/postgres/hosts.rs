//! Several servers in one URL: `postgres://u@h1:5432,h2/db?target_session_attrs=read-write`, as libpq has it.

use super::open_error::OpenError;

/// Kind of server that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// Any server that accepts the connection.
    Any,
    /// A server that accepts writes.
    ReadWrite,
}

/// Parameters of a connection URL that have an effect here.
const PARAMETERS: [&str; 12] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
];
/// Parameters of libpq that have no effect here. URLs that hosters hand out contain some of them.
const IGNORED: [&str; 11] = [
    "channel_binding",
    "connect_timeout",
    "gssencmode",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "load_balance_hosts",
    "sslnegotiation",
    "sslsni",
    "tcp_user_timeout",
];

/// False for a parameter that is misspelled or meant for another program: ignoring `sslmod=require` would leave the
/// connection unencrypted.
fn is_known(name: &str) -> bool {
    // `options[work_mem]=…` and its percent-encoded form set a variable of the session.
    let variable = ["options[", "options%5B", "options%5b"].iter().any(|prefix| name.starts_with(prefix));
    variable || PARAMETERS.contains(&name) || IGNORED.contains(&name)
}

/// One URL for each server of a URL, and the kind of server that is asked for. Without a parameter, one of several
/// servers has to accept writes.
pub(super) fn split(url: &str) -> Result<(Vec<String>, Target), OpenError> {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut rest, mut target) = (Vec::new(), None);
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        match parameter.split_once('=').unwrap_or((parameter, "")) {
            ("target_session_attrs", "any") => target = Some(Target::Any),
            ("target_session_attrs", "read-write" | "primary") => target = Some(Target::ReadWrite),
            ("target_session_attrs", other) => return Err(OpenError::Target { found: other.to_owned() }),
            (name, _) if is_known(name) => rest.push(parameter),
            (name, _) => return Err(OpenError::Parameter { found: name.to_owned() }),
        }
    }
    let query = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
    let (scheme, place) = base.split_once("://").unwrap_or(("postgres", base));
    let (authority, path) = place.find('/').map_or((place, ""), |at| place.split_at(at));
    // A password may contain commas; the last @ ends it.
    let (user, hosts) = authority.rfind('@').map_or(("", authority), |at| authority.split_at(at + 1));
    let urls: Vec<_> = hosts.split(',').map(|host| format!("{scheme}://{user}{host}{path}{query}")).collect();
    let usual = if urls.len() > 1 { Target::ReadWrite } else { Target::Any };
    Ok((urls, target.unwrap_or(usual)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_gets_the_rest_of_the_url() {
        let split = |url: &str| split(url).map_err(|error| error.to_string());
        assert_eq!(split("postgres://h/d"), Ok((vec!["postgres://h/d".into()], Target::Any)));
        assert_eq!(
            split("postgres://u:a,b@h1:5433,[::1],h3/d?sslmode=require&target_session_attrs=read-write"),
            Ok((
                ["h1:5433", "[::1]", "h3"].map(|host| format!("postgres://u:a,b@{host}/d?sslmode=require")).into(),
                Target::ReadWrite
            ))
        );
        assert_eq!(split("postgres://h1,h2/d").map(|(_, target)| target), Ok(Target::ReadWrite));
        assert_eq!(split("postgres://h1,h2?target_session_attrs=any").map(|(_, target)| target), Ok(Target::Any));
        let refused = split("postgres://h/d?sslmod=require").expect_err("refused");
        assert!(refused.contains("sslmod") && refused.contains("sslmode"), "{refused}");
        let accepted = "postgres://h/d?sslmode=require&channel_binding=require&options[geqo]=off&options%5Bjit%5D=on";
        assert_eq!(split(accepted), Ok((vec![accepted.into()], Target::Any)));
        let refused = split("postgres://h/d?target_session_attrs=standby").expect_err("refused");
        assert!(refused.contains("standby") && refused.contains("read-write"), "{refused}");
    }
}

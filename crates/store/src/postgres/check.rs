//! Checks of a server before Threadline uses it.

use sqlx::{PgConnection, Row};

use super::{address::Address, open_error::OpenError};

/// The oldest version that has all features that the statements need.
const OLDEST: i64 = 130_000;

/// A setting of the server under which an acknowledged event may be lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Name of the setting.
    pub setting: &'static str,
    /// Value of the setting on the server.
    pub value: String,
    /// Consequence of this value.
    pub meaning: &'static str,
}

const SETTINGS: [(&str, &str); 3] = [
    ("fsync", "after a power failure the whole database may be lost: set fsync = on"),
    ("full_page_writes", "a power failure may tear pages beyond repair: set full_page_writes = on"),
    ("synchronous_commit", "commits are acknowledged before they are on disk; Threadline sets it for its own sessions"),
];

/// Refuses a server that cannot do the work, and warns about one that may lose it.
pub(super) async fn server(address: &Address, connection: &mut PgConnection) -> Result<Vec<Finding>, OpenError> {
    let text = "SELECT name, setting FROM pg_settings WHERE name IN
        ('server_version', 'server_version_num', 'server_encoding', 'fsync', 'full_page_writes', 'synchronous_commit')";
    let rows = address.ask(connection, text).await?;
    let settings: Vec<(String, String)> =
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<_, sqlx::Error>>()?;
    let setting = |wanted: &str| {
        settings.iter().find(|(name, _)| name == wanted).map_or_else(String::new, |(_, value)| value.clone())
    };
    if setting("server_version_num").parse::<i64>().unwrap_or(0) < OLDEST {
        return Err(OpenError::OldServer { found: setting("server_version") });
    }
    if setting("server_encoding") != "UTF8" {
        return Err(OpenError::Encoding { found: setting("server_encoding") });
    }
    let mut findings = Vec::new();
    for (name, meaning) in SETTINGS {
        let value = setting(name);
        if value == "off" {
            tracing::error!(setting = name, value, "THE DATABASE IS NOT SAFE: {meaning}");
            findings.push(Finding { setting: name, value, meaning });
        }
    }
    Ok(findings)
}

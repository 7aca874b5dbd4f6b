//! URLs that hold passwords, read from files: other users of a machine can see arguments, and variables are inherited.

use std::path::Path;

use threadline_store::private::read_key_file;

use super::{error::ConfigError, settings::is_database};

/// Setting whose value is a URL, or a file that holds it.
struct UrlSetting {
    /// Flag of the URL itself; the flag of the file is this one with `-file`.
    flag: &'static str,
    accepts: fn(&str) -> bool,
}

const STORE: UrlSetting = UrlSetting { flag: "--store", accepts: is_database };
const REDIS: UrlSetting = UrlSetting { flag: "--redis", accepts: |url| url.contains("://") };

impl UrlSetting {
    /// URL of the setting. Two of them contradict each other: a node would use the one that its operator did not mean.
    fn url(&self, url: Option<&str>, file: Option<&Path>) -> Result<Option<String>, ConfigError> {
        let url = url.filter(|url| !url.is_empty());
        let Some(file) = file else { return Ok(url.map(ToOwned::to_owned)) };
        if url.is_some() {
            return Err(ConfigError::TwoUrls(self.flag));
        }
        let text = read_key_file(file)?;
        let text = text.trim();
        if !(self.accepts)(text) || text.contains(char::is_whitespace) {
            return Err(ConfigError::NotUrl { path: file.to_owned(), flag: self.flag });
        }
        Ok(Some(text.to_owned()))
    }
}

/// URL of the database that `--store` or `--store-file` names; `None` if neither is set.
pub fn store_url(url: Option<&str>, file: Option<&Path>) -> Result<Option<String>, ConfigError> {
    STORE.url(url, file)
}

/// URL of the Redis that `--redis` or `--redis-file` names; `None` if neither is set.
pub fn redis_url(url: Option<&str>, file: Option<&Path>) -> Result<Option<String>, ConfigError> {
    REDIS.url(url, file)
}

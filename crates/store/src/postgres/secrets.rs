//! Secrets of a database. Its nodes have the keys, or none of them has.

use sqlx::{Arguments, PgConnection, Row, SqlSafeStr, postgres::PgArguments};

use super::{address::Address, open_error::OpenError};
use crate::{
    SecretAccess, StoreError,
    sql::secrets::Secrets,
    sql::tables::secrets::{CHANGE_ROOT, MAKE_ROOT, ROOT_VALUE},
};

/// Opens the secrets of the database. The first node with keys seals the root of digests: from then on, nodes without keys do
/// not start. A standby is only read.
pub(super) async fn of(
    address: &Address,
    connection: &mut PgConnection,
    access: SecretAccess,
    standby: bool,
) -> Result<Secrets, OpenError> {
    let (keys, renewal) = match access {
        SecretAccess::Keys(keys) => (keys, false),
        SecretAccess::Renewal(keys) => (keys, true),
        SecretAccess::None => return Ok(Secrets::shut()),
    };
    loop {
        let rows = address.ask(connection, ROOT_VALUE).await?;
        let stored: Option<String> = rows.first().map(|row| row.try_get(0)).transpose()?;
        let (secrets, value) = Secrets::of(keys.clone(), renewal, stored.as_deref())?;
        let Some(value) = value else { return Ok(secrets) };
        if standby {
            return match stored {
                Some(_) => Ok(secrets),
                None => Err(StoreError::Unavailable("a standby that no node has used as its primary".into()).into()),
            };
        }
        let mut arguments = PgArguments::default();
        arguments.add(value).map_err(sqlx::Error::Encode)?;
        let text = match stored {
            Some(stored) => {
                arguments.add(stored).map_err(sqlx::Error::Encode)?;
                CHANGE_ROOT
            }
            None => MAKE_ROOT,
        };
        // Another node may have been first, so the row is read again.
        address.run(connection, text.into_sql_str(), arguments).await?;
    }
}

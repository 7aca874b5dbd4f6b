//! A page of a SQLite database that a disk has changed.

use std::path::Path;

use sqlx::{Connection, SqliteConnection};

/// Changes bytes at the end of the root page of an index, more than its first entry has. No process may have the file open.
pub async fn damage_index(file: &Path, index: &str) {
    let mut own = SqliteConnection::connect(&format!("sqlite://{}", file.display())).await.expect("connects");
    let place = "SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_master WHERE name = ?1";
    let (page, size): (i64, i64) =
        sqlx::query_as(place).bind(index).fetch_one(&mut own).await.expect("an index of this name");
    own.close().await.expect("closes");
    let mut bytes = std::fs::read(file).expect("a file");
    let end = usize::try_from(page * size).expect("an offset");
    bytes[end - 24..end].iter_mut().for_each(|byte| *byte ^= 0xff);
    std::fs::write(file, bytes).expect("writes");
}

//! The chapter on moving, on SQLite.

use idem_tests::databases::{Sqlite as Database, sqlite};
use sqlx::SqlitePool;
pub use sqlx::{Sqlite as Db, SqliteConnection as Connection};

#[path = "moving.rs"]
mod moving;

pub const NAME: &str = "sqlite";

pub async fn fresh() -> (Database, SqlitePool) {
    let database = sqlite();
    let pool = database.pool(4).await;
    (database, pool)
}

//! The chapter on moving, on PostgreSQL.

use idem_tests::databases::{Postgres as Database, postgres};
use sqlx::PgPool;
pub use sqlx::{PgConnection as Connection, Postgres as Db};

#[path = "moving.rs"]
mod moving;

pub const NAME: &str = "postgres";

pub async fn fresh() -> (Database, PgPool) {
    let database = postgres().await;
    let pool = database.pool(4).await;
    (database, pool)
}

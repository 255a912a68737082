//! A service with external effects, as a separate process, to kill, stop and run on other clocks.
//! `DATABASE_URL`, `LISTEN` and `LEASE` (in milliseconds) say how.
#![allow(clippy::duplicate_mod, reason = "compiled once for each database, on purpose")]

use std::{env, error::Error};

#[path = "."]
mod postgres {
    pub use sqlx::Postgres as Db;
    pub mod app;
}

#[path = "."]
mod sqlite {
    pub use sqlx::Sqlite as Db;
    pub mod app;
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::var("DATABASE_URL")?;
    if url.starts_with("sqlite:") { sqlite::app::serve(&url).await } else { postgres::app::serve(&url).await }
}

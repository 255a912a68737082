//! What an error keeps of its cause: a consumer and an operator tell a full pool from a server that is away.
//! Each case with the pool's own time-out, and with idem's.

use std::{io::ErrorKind, net::TcpListener, time::Duration};

use idem_runtime::{
    Code, Error, Idempotency,
    messages::{ConsumeError, Once},
};
use idem_tests::{
    databases::postgres,
    proxy::{Network, Proxy},
    service::prepare,
};
use sqlx::{
    PgPool, Postgres,
    postgres::{PgConnectOptions, PgPoolOptions},
};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(60);

/// The two time-outs of a store, of which the shorter counts.
const TIMEOUTS: [(Duration, Duration); 2] = [(SHORT, LONG), (LONG, SHORT)];

fn store(options: PgConnectOptions, (acquire, database): (Duration, Duration)) -> (PgPool, Idempotency<Postgres>) {
    let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(acquire).connect_lazy_with(options);
    (pool.clone(), Idempotency::builder(pool).database_timeout(database).build())
}

async fn deliver(idempotency: &Idempotency<Postgres>) -> Result<Once<()>, ConsumeError<sqlx::Error>> {
    idempotency.once("orders", "m-1", |_| Box::pin(async { Ok(()) })).await
}

/// The source of a delivery's error and of a check's.
async fn sources(idempotency: &Idempotency<Postgres>) -> [sqlx::Error; 2] {
    let delivery = match deliver(idempotency).await {
        Err(ConsumeError::Store { code: Code::StoreUnavailable, source: Some(source), .. }) => source,
        other => panic!("{other:?}"),
    };
    match idempotency.check().await {
        Err(Error::Database(source)) => [delivery, source],
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_full_pool_is_a_pool_timeout() {
    let database = postgres().await;
    prepare(&database).await;
    for timeouts in TIMEOUTS {
        let (pool, idempotency) = store(database.options(), timeouts);
        let connection = pool.acquire().await.unwrap();
        for source in sources(&idempotency).await {
            assert!(matches!(source, sqlx::Error::PoolTimedOut), "{source:?}");
        }
        drop(connection);
        assert!(deliver(&idempotency).await.is_ok());
        sqlx::query("DELETE FROM idem_records").execute(&pool).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_no_pool_timeout() {
    // Nobody listens there: sqlx waits for the server to come up.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(free.local_addr().unwrap().port());
    drop(free);
    for timeouts in TIMEOUTS {
        for source in sources(&store(nobody.clone(), timeouts).1).await {
            assert!(matches!(&source, sqlx::Error::Io(io) if io.kind() == ErrorKind::TimedOut), "{source:?}");
        }
    }
}

#[tokio::test]
async fn a_server_that_freezes_is_no_pool_timeout() {
    let database = postgres().await;
    prepare(&database).await;
    let proxy = Proxy::start(&database).await;
    for timeouts in TIMEOUTS {
        proxy.set(Network::Up);
        let (pool, idempotency) = store(proxy.options(&database), timeouts);
        assert!(deliver(&idempotency).await.is_ok());
        // sqlx asks the server once more on the way back to the pool; until then the connection is in use.
        while pool.num_idle() == 0 {
            tokio::task::yield_now().await;
        }
        proxy.set(Network::Frozen);
        for source in sources(&idempotency).await {
            assert!(matches!(&source, sqlx::Error::Io(io) if io.kind() == ErrorKind::TimedOut), "{source:?}");
        }
    }
}

#[tokio::test]
async fn a_statement_that_overruns_is_no_pool_timeout() {
    let database = postgres().await;
    prepare(&database).await;
    let proxy = Proxy::start(&database).await;
    let (_pool, idempotency) = store(proxy.options(&database), (LONG, SHORT));
    let trap = proxy.hold("SELECT r.operation");
    match deliver(&idempotency).await {
        Err(ConsumeError::Store { code: Code::StoreUnavailable, source: Some(sqlx::Error::Io(io)), .. }) => {
            assert_eq!(io.to_string(), "the database did not respond within 300ms");
        }
        other => panic!("{other:?}"),
    }
    trap.sprung().await;
    trap.release();
}

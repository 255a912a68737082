//! A database that is down, frozen, read-only or locked claims nothing for an attempt with external effects.
//! Whatever it is, the answer comes in bounded time and nothing has been called.

use super::*;

#[tokio::test]
async fn b60_every_connection_ended_in_the_body_harms_no_attempt_that_holds_none() {
    let (database, _proxy, service) = proxied().await;
    let first = service.begin_charge("/charge", "k", "wait");
    service.probe.gate.entered().await;
    database.end_all_connections().await;
    service.probe.gate.open();
    assert_ran(&first.await.unwrap());
    assert_eq!((rows(&database, "k").await, in_progress(&database).await), (1, 0));
}

#[tokio::test]
async fn b53_a_server_that_is_down_or_frozen_claims_nothing() {
    for network in [Network::Down, Network::Frozen] {
        let (database, proxy, service) = proxied().await;
        proxy.set(network);
        if network == Network::Down {
            proxy.cut_all().await;
        }
        for _ in 0..2 {
            assert_problem(&bounded(service.charge("/charge", "k", "write")).await, 503, UNAVAILABLE);
        }
        assert_eq!(service.runs(), 1);
        proxy.set(Network::Up);
        until("the claims that come too late to be given back", async || {
            service.charge("/charge", "k", "write").await.status == 201
        })
        .await;
        assert_replayed(&service.charge("/charge", "k", "write").await);
        assert_eq!((service.runs(), rows(&database, "k").await), (2, 1));
    }
}

#[tokio::test]
async fn b49_an_exhausted_pool_claims_nothing() {
    let database = postgres().await;
    let options = PgPoolOptions::new().max_connections(1).acquire_timeout(PATIENCE);
    let pool = options.connect_with(database.options()).await.unwrap();
    let service = Service::start_with(&database, pool, |builder| builder).await;
    let taken = service.pool.acquire().await.unwrap();
    for _ in 0..2 {
        assert_problem(&bounded(service.charge("/charge", "k", "write")).await, 503, UNAVAILABLE);
    }
    assert_eq!((service.runs(), records(&database).await), (0, 0));
    drop(taken);
    assert_ran(&service.charge("/charge", "k", "write").await);
}

#[tokio::test]
async fn b52_a_server_that_has_become_read_only_claims_nothing_and_is_left() {
    let database = postgres().await;
    let service = Service::start_with(&database, database.pool(1).await, |builder| builder).await;
    assert_ran(&service.charge("/charge", "before", "write").await);
    let pid = async || -> i32 { sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&service.pool).await.unwrap() };
    service.pool.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY").await.unwrap();
    let old = pid().await;
    assert_problem(&service.charge("/charge", "k", "write").await, 503, UNAVAILABLE);
    assert_eq!(service.runs(), 1);
    assert_ne!(pid().await, old, "the connection to a server that accepts no writes was kept");
    assert_ran(&service.charge("/charge", "k", "write").await);
    assert_eq!(rows(&database, "k").await, 1);
}

#[tokio::test]
async fn b52_a_database_set_read_only_claims_nothing_until_it_is_set_back() {
    let database = postgres().await;
    let service = Service::start(&database).await;
    assert_ran(&service.charge("/charge", "before", "write").await);
    database.set("default_transaction_read_only", "on").await;
    database.end_all_connections().await;
    for _ in 0..3 {
        assert_problem(&service.charge("/charge", "k", "write").await, 503, UNAVAILABLE);
    }
    assert_eq!(service.runs(), 1);
    database.set("default_transaction_read_only", "off").await;
    assert_ran(&service.charge("/charge", "k", "write").await);
    assert_replayed(&service.charge("/charge", "before", "write").await);
}

#[tokio::test]
async fn b53_a_table_without_permission_claims_nothing() {
    let database = postgres().await;
    prepare(&database).await;
    let mut outside = database.connect().await;
    let all = "GRANT ALL ON ALL TABLES IN SCHEMA public TO pg_monitor";
    outside.execute(all).await.unwrap();
    let pool = database.pool_with(2, database.options().options([("role", "pg_monitor")])).await;
    let service = Service::join(pool, |builder| builder).await;
    for (number, missing) in ["INSERT", "UPDATE", "SELECT"].into_iter().enumerate() {
        let key = format!("k{number}");
        let revoke = format!("REVOKE {missing} ON idem_records FROM pg_monitor");
        outside.execute(AssertSqlSafe(revoke)).await.unwrap();
        assert_problem(&service.charge("/charge", &key, "write").await, 500, "idempotency-schema");
        assert_eq!((service.runs(), records(&database).await), (number, number as i64), "{missing}");
        outside.execute(all).await.unwrap();
        assert_ran(&service.charge("/charge", &key, "write").await);
    }
    // Only to free a key it must delete: without that the recovery has the key.
    outside.execute("REVOKE DELETE ON idem_records FROM pg_monitor").await.unwrap();
    assert_ran(&service.charge("/charge", "k", "write").await);
    assert_problem(&service.charge("/charge", "n", "nothing").await, 503, UNKNOWN);
    assert_eq!((in_progress(&database).await, service.idempotency.stalled().await.unwrap().len()), (1, 1));
    outside.execute(all).await.unwrap();
    assert_eq!(service.sweep().await.released, 1);
    assert_eq!(service.charge("/charge", "n", "nothing").await.status, 400);
}

#[tokio::test]
async fn b53_a_missing_table_claims_nothing() {
    let database = postgres().await;
    let service = Service::start(&database).await;
    let mut outside = database.connect().await;
    outside.execute("ALTER TABLE idem_records RENAME TO elsewhere").await.unwrap();
    assert_problem(&service.charge("/charge", "k", "write").await, 500, "idempotency-schema");
    assert!(service.idempotency.stalled().await.is_err());
    assert_eq!((service.runs(), rows(&database, "k").await), (0, 0));
    outside.execute("ALTER TABLE elsewhere RENAME TO idem_records").await.unwrap();
    assert_ran(&service.charge("/charge", "k", "write").await);
}

#[tokio::test]
async fn b53_a_locked_table_is_not_waited_for_beyond_any_of_the_limits() {
    for (setting, value) in [("lock_timeout", "20ms"), ("statement_timeout", "50ms"), ("application_name", "patience")]
    {
        let database = postgres().await;
        let pool = database.pool_with(2, database.options().options([(setting, value)])).await;
        let service = Service::start_with(&database, pool, |builder| builder.database_timeout(PATIENCE)).await;
        let mut outside = database.connect().await;
        let mut migration = outside.begin().await.unwrap();
        migration.execute("LOCK TABLE idem_records IN ACCESS EXCLUSIVE MODE").await.unwrap();
        for _ in 0..2 {
            assert_problem(&bounded(service.charge("/charge", "k", "write")).await, 503, UNAVAILABLE);
        }
        assert_eq!(service.runs(), 0, "{setting}");
        migration.rollback().await.unwrap();
        until("a claim that came too late to be given back", async || {
            service.charge("/charge", "k", "write").await.status == 201
        })
        .await;
        assert_replayed(&service.charge("/charge", "k", "write").await);
        assert_eq!((service.runs(), rows(&database, "k").await, records(&database).await), (1, 1, 1), "{setting}");
    }
}

//! A 5xx of a transaction that the database has aborted is sent and not stored, whatever hides its cause.
//! A 5xx of a sound transaction is a result like any other.

use super::*;

#[tokio::test]
async fn a_5xx_of_an_aborted_transaction_is_sent_and_not_stored_whatever_hides_its_cause() {
    listen();
    let database = postgres().await;
    let service = Service::start(&database, 1, |builder| builder).await;
    for path in ["/boxed", "/pair", "/axum_result", "/unwrapping", "/visible"] {
        for state in ["40P01", "23505", "XX000"] {
            if (path, state) == ("/visible", "40P01") {
                continue; // seen, and run again
            }
            let (key, sql) = (format!("{path}{state}"), format!("SELECT fail('{state}')"));
            service.switch(true).await;
            let runs = service.runs.count();
            let failed = service.send(path, &key, &sql).await;
            assert_eq!((failed.status, failed.header("idempotent-replayed")), (500, None), "{key}");
            assert_eq!((records(&database).await, service.runs.count()), (0, runs + 1), "{key}");
            assert!(heard().contains("is not stored: the database aborted its transaction"), "{key}: {}", heard());
            service.switch(false).await;
            assert_ran(&service.send(path, &key, &sql).await);
            service.pool.execute("DELETE FROM idem_records").await.unwrap();
            listen();
        }
    }
}

/// A 5xx of a sound transaction is a result, and so is one whose handler rolled back to a savepoint of its own.
#[tokio::test]
async fn a_5xx_of_a_sound_transaction_is_stored() {
    let database = postgres().await;
    let service = Service::start(&database, 1, |builder| builder.max_response(1)).await;
    let _ = &service;
    #[idempotent(scope = account)]
    async fn sound(account: Account, tx: &mut PgConnection) -> StatusCode {
        let _ = account;
        tx.execute("SAVEPOINT mine").await.unwrap();
        drop(tx.execute("SELECT no_such_function()").await);
        tx.execute("ROLLBACK TO mine").await.unwrap();
        StatusCode::BAD_GATEWAY
    }
    let idempotency = Idempotency::builder(service.pool.clone()).build();
    let server = Server::start(Router::new().route("/sound", post(sound)).with_state(idempotency)).await;
    let headers = [("x-account", "ada"), ("idempotency-key", "k")];
    for replayed in [None, Some("true")] {
        let response = http::post(server.address(), "/sound", &headers, String::new()).await;
        assert_eq!((response.status, response.header("idempotent-replayed")), (502, replayed));
    }
}

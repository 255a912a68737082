//! Restarts between request and retry, a shared SQLite file, and processes that are told to end.
//! What was answered is replayed by the next process; what was begun is ended.

use crate::*;

/// A first answer, a restart or another process, the same answer.
async fn b68_restart(url: &str) {
    let one = payments(url).await;
    let first = pay(&one, "ada", "k", "tok_visa").await;
    let declined = pay(&one, "ada", "declined", "tok_declined").await;
    assert_eq!((first.status, declined.status), (201, 402));
    kill(one).await;

    let one = payments(url).await;
    let again = pay(&one, "ada", "k", "tok_visa").await;
    assert_eq!((again.status, replayed(&again), &again.body), (201, true, &first.body));
    assert_eq!(again.header("location"), first.header("location"));
    let again = pay(&one, "ada", "declined", "tok_declined").await;
    assert_eq!((again.status, replayed(&again), again.body), (402, true, declined.body));
    assert_eq!((runs(one.address()).await, payments_of(&one, "ada").await["count"].as_u64()), (0, Some(1)));
    kill(one).await;
}

#[tokio::test]
async fn b68_a_restart_between_request_and_retry_on_postgres() {
    b68_restart(&postgres().await.url()).await;
}

#[tokio::test]
async fn b68_a_restart_between_request_and_retry_on_sqlite() {
    let database = sqlite();
    b68_restart(&database.url()).await;
}

#[tokio::test]
async fn b60_a_process_killed_in_the_handler_leaves_nothing_on_sqlite() {
    let database = sqlite();
    let one = payments(&database.url()).await;
    let _first = begin(&one, "k", "tok_slow_2000").await;
    kill(one).await;
    let one = payments(&database.url()).await;
    let retried = pay(&one, "ada", "k", "tok_slow_2000").await;
    assert_eq!((retried.status, replayed(&retried), runs(one.address()).await), (201, false, 1));
    assert_eq!(payments_of(&one, "ada").await["count"], 1);
}

#[tokio::test]
async fn b55_two_processes_share_a_sqlite_file() {
    let database = sqlite();
    let (one, other) = (payments(&database.url()).await, payments(&database.url()).await);
    let processes = [&one, &other];
    let answers = join_all(
        (0..100)
            .map(|number| async move { pay(processes[number % 2], "ada", &format!("k{number}"), "tok_visa").await }),
    );
    for answer in answers.await {
        assert_eq!((answer.status, replayed(&answer)), (201, false), "{}", answer.text());
    }
    assert!(replayed(&pay(&one, "ada", "k1", "tok_visa").await));
    assert_eq!(payments_of(&one, "ada").await["count"], 100);
    assert_eq!(runs(one.address()).await + runs(other.address()).await, 100);
}

/// The client has gone, so the server's own graceful shutdown has nothing to wait for.
async fn b60_drained(url: &str) {
    let mut one = payments(url).await;
    drop(begin(&one, "k", "tok_slow_1500").await);
    one.signal("TERM").await;
    let ended = one.wait().await;
    assert!(ended.success(), "{ended}: {}", one.output());

    let one = payments(url).await;
    let retried = pay(&one, "ada", "k", "tok_slow_1500").await;
    assert_eq!((retried.status, replayed(&retried), runs(one.address()).await), (201, true, 0));
    assert_eq!(payments_of(&one, "ada").await["count"], 1);
}

#[tokio::test]
async fn b60_a_process_told_to_end_ends_what_it_began_on_postgres() {
    b60_drained(&postgres().await.url()).await;
}

#[tokio::test]
async fn b60_a_process_told_to_end_ends_what_it_began_on_sqlite() {
    let database = sqlite();
    b60_drained(&database.url()).await;
}

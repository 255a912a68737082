//! Leases of a fraction of a second, and clocks that are ten minutes apart or stand still.
//! PostgreSQL has one clock for all processes; on SQLite each process uses its own.

use crate::*;

#[tokio::test]
async fn a_lease_with_fractions_of_a_second_is_renewed_for_as_long_as_the_body_runs() {
    for store in both().await {
        let (one, other) = (node(&store, 1500).await, node(&store, 1500).await);
        let first = begin(&one, "k");
        store.called(1).await;
        // Four leases long, and another node looks all the while.
        let renewed = async {
            while store.moved().await < 6000 {
                assert_eq!(sweep(&other).await, [0; 3]);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        soon("the renewals", renewed).await;
        store.let_through("k").await;
        assert_eq!(soon("the answer", first).await.unwrap().text(), "by the attempt");
        assert_eq!(store.counts().await, [1, 1, 1, 1, 0]);
    }
}

#[tokio::test]
async fn clocks_of_processes_ten_minutes_apart_count_for_nothing_on_postgres() {
    let store = Store::Postgres(Box::new(postgres().await));
    let (ahead, behind) = (node_at(&store, MINUTE, "+10m").await, node_at(&store, MINUTE, "-10m").await);
    for (runs, (one, other, key)) in [(&ahead, &behind, "a"), (&behind, &ahead, "b")].into_iter().enumerate() {
        let first = begin(one, key);
        store.called(runs as i64 + 1).await;
        let left = store
            .number(
                "SELECT (extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint \
                                 FROM idem_records WHERE attempt IS NOT NULL",
            )
            .await;
        assert!((30_000..=60_000).contains(&left), "{left}");
        assert_eq!(sweep(other).await, [0; 3]);
        let twin = charge(other, key).await;
        assert_turned_away(&twin, 409, "in-progress");
        assert!(twin.header("retry-after").unwrap().parse::<u32>().unwrap() <= 60);
        store.let_through(key).await;
        assert_eq!(soon("the answer", first).await.unwrap().text(), "by the attempt");
        assert_replay_of(&charge(other, key).await, "by the attempt");
    }
    // Stalled by the database's clock, for every process.
    for (key, dead, alive, calls) in [("c", ahead, "-10m", 3), ("d", behind, "+10m", 4)] {
        let mut dead = dead;
        let sweeper = node_at(&store, MINUTE, alive).await;
        let first = begin(&dead, key);
        store.called(calls).await;
        // The client leaves first, and that ends no attempt.
        first.abort();
        dead.signal("KILL").await;
        dead.wait().await;
        assert_eq!(sweep(&sweeper).await, [0; 3]);
        store.execute("UPDATE idem_records SET lease_until = clock_timestamp() WHERE attempt IS NOT NULL").await;
        assert_eq!(sweep(&sweeper).await, [1, 0, 0]);
        assert_replay_of(&charge(&sweeper, key).await, "by the recovery");
    }
    assert_eq!(store.counts().await, [4, 4, 4, 4, 0]);
}

/// On SQLite each process uses its own clock. A process that is ahead takes live attempts for stalled ones, and loses
/// nothing by it: the fence holds, and the step key is the same.
#[tokio::test]
async fn clocks_of_processes_ten_minutes_apart_charge_nobody_twice_on_sqlite() {
    let store = Store::Sqlite(sqlite());
    let (ahead, behind) = (node_at(&store, MINUTE, "+10m").await, node(&store, MINUTE).await);
    // The one ahead decides an attempt that still runs: its client gets a 503, and the verdict stands.
    let first = begin(&behind, "a");
    store.called(1).await;
    assert_eq!(sweep(&ahead).await, [1, 0, 0]);
    store.let_through("a").await;
    assert_turned_away(&soon("the answer", first).await.unwrap(), 503, "idempotency-outcome-unknown");
    for process in [&ahead, &behind] {
        assert_replay_of(&charge(process, "a").await, "by the recovery");
    }
    assert_eq!(store.counts().await, [1, 1, 1, 1, 0]);

    // The one behind does not see that an attempt is stalled until its own clock says so; retries wait, and none runs.
    let (mut ahead, behind) = (ahead, behind);
    let first = begin(&ahead, "b");
    store.called(2).await;
    // The client leaves first, and that ends no attempt.
    first.abort();
    ahead.signal("KILL").await;
    ahead.wait().await;
    assert_eq!(sweep(&behind).await, [0; 3]);
    assert_turned_away(&charge(&behind, "b").await, 409, "in-progress");
    assert!((600_000..=660_000).contains(&store.left().await));
    let ahead = node_at(&store, MINUTE, "+20m").await;
    assert_eq!(sweep(&ahead).await, [1, 0, 0]);
    assert_replay_of(&charge(&behind, "b").await, "by the recovery");
    assert_eq!(store.counts().await, [2, 2, 2, 2, 0]);
}

/// A clock that stands still shows what "exactly now" is: an attempt whose lease ends at this millisecond is stalled.
#[tokio::test]
async fn a_lease_that_ends_exactly_now_has_ended() {
    let store = Store::Sqlite(sqlite());
    // So long that it is renewed after the test at the earliest; and its end is a moment that SQLite's reckoning in days, which
    // is short by a millisecond at some, has whole.
    let mut dead = node_at(&store, 64_000, "2026-01-01 00:00:00").await;
    let first = begin(&dead, "k");
    store.called(1).await;
    // The client leaves first, and that ends no attempt.
    first.abort();
    dead.signal("KILL").await;
    dead.wait().await;
    let now = 1_767_225_600_000_i64;
    assert_eq!(store.number("SELECT lease_until FROM idem_records").await, now + 64_000);
    // By the survey of a sweep without reconcilers, and by the list for people.
    for (clock, dead) in [("2026-01-01 00:01:03.999", 0), ("2026-01-01 00:01:04", 1)] {
        let looked = http::post(node_at(&store, MINUTE, clock).await.address(), "/look", &[], "").await.json();
        let looked = ["unattended", "stalled"].map(|count| looked[count].as_u64().expect("a count"));
        assert_eq!(looked, [dead; 2], "{clock}");
    }
    assert_eq!(sweep(&node_at(&store, MINUTE, "2026-01-01 00:02:00").await).await, [1, 0, 0]);
    assert_eq!(store.counts().await, [1, 1, 1, 1, 0]);
}

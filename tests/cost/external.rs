//! What the guarantee costs with external effects: statements, commits, renewals, sweeps.
//! The two commits of an attempt are the price of a call to another system.

use crate::*;

/// Past the preparation of the statements.
async fn charging(connections: u32) -> (Postgres, Service) {
    let (database, service) = service(connections).await;
    assert_ran(&service.charge("/charge", "warm-charge", "write").await);
    assert_ran(&service.charge("/charge", "warm-alone", "alone").await);
    (database, service)
}

/// How many transactions commit, each with its wait for the disk: statements by themselves, and COMMIT.
fn commits(statements: &[String]) -> usize {
    let (mut commits, mut open) = (0, false);
    for statement in statements {
        let begins = statement.contains("BEGIN");
        let ends = ["COMMIT", "ROLLBACK"].contains(&statement.as_str());
        if statement == "COMMIT" || !(open || begins || ends) {
            commits += 1;
        }
        open = begins || (open && !ends);
    }
    commits
}

#[tokio::test]
async fn effects_elsewhere_cost_two_commits_and_no_statement_more() {
    let (database, service) = charging(1).await;
    let mut log = StatementLog::start(&database).await;
    let first = service.begin_charge("/charge", "k", "wait");
    service.probe.gate.entered().await;
    assert_statements(&log.statements_of(SERVICE).await, &[LEASE]);
    service.probe.gate.open();
    assert_ran(&first.await.unwrap());
    let all = log.statements_of(SERVICE).await;
    assert_statements(&all, &[LEASE, BEGIN_TO_COMPLETE, OWN, RESTORE, COMPLETE, "COMMIT"]);
    assert_eq!(commits(&all), 2);

    let mut log = StatementLog::start(&database).await;
    assert_ran(&service.charge("/charge", "k2", "alone").await);
    let all = log.statements_of(SERVICE).await;
    assert_statements(&all, &[LEASE, COMPLETE]);
    assert_eq!(commits(&all), 2);
}

#[tokio::test]
async fn effects_elsewhere_on_a_new_connection_cost_the_same() {
    let (database, service) = charging(1).await;
    database.end_all_connections().await;
    let mut log = StatementLog::start(&database).await;
    assert_ran(&service.charge("/charge", "k", "write").await);
    assert_statements(&log.statements_of(SERVICE).await, &[LEASE, BEGIN_TO_COMPLETE, OWN, RESTORE, COMPLETE, "COMMIT"]);
}

#[tokio::test]
async fn a_replay_or_a_mismatch_with_effects_elsewhere_costs_one_statement() {
    let (database, service) = charging(1).await;
    let mut log = StatementLog::start(&database).await;
    assert_replayed(&service.charge("/charge", "warm-charge", "write").await);
    assert_problem(&service.charge("/charge", "warm-charge", "alone").await, 422, "idempotency-key-reuse");
    assert_statements(&log.statements_of(SERVICE).await, &[LEASE, LEASE]);
}

#[tokio::test]
async fn a_twin_with_effects_elsewhere_costs_nothing_here_and_one_statement_at_another_process() {
    let (database, service) = charging(1).await;
    let pool = database.pool_with(1, database.options().application_name("other")).await;
    let other = Service::join(pool, |builder| builder).await;
    let first = service.begin_charge("/charge", "k", "wait");
    service.probe.gate.entered().await;
    let mut log = StatementLog::start(&database).await;
    for asked in [&service, &other] {
        assert_problem(&asked.charge("/charge", "k", "wait").await, 409, "in-progress");
        assert_problem(&asked.charge("/charge", "k", "write").await, 422, "idempotency-key-reuse");
    }
    for key in ["", "a,b", "\"open", &"x".repeat(256)] {
        assert_problem(&service.charge("/charge", key, "write").await, 400, "idempotency-key-malformed");
    }
    assert_statements(&log.statements_of(SERVICE).await, &[]);
    assert_statements(&log.statements_of("other").await, &[LEASE, LEASE]);
    service.probe.gate.open();
    assert_ran(&first.await.unwrap());
}

#[tokio::test]
async fn what_each_other_end_of_an_attempt_costs() {
    let (database, service) = charging(1).await;
    for (path, act, status, expected) in [
        ("/charge", "nothing", 400, &[LEASE, RELEASE][..]),
        ("/charge", "panic", 500, &[LEASE, COMPLETE]),
        // Rolled back to the savepoint first: that proves that what is rolled back is the whole of it.
        ("/charge", "decline", 402, &[LEASE, BEGIN_TO_COMPLETE, OWN, "ROLLBACK TO SAVEPOINT", "ROLLBACK", COMPLETE]),
        ("/doubt", "panic", 500, &[LEASE, RENEW]),
        ("/doubt", "fail", 502, &[LEASE, BEGIN_TO_COMPLETE, OWN, "ROLLBACK TO SAVEPOINT", "ROLLBACK", RENEW]),
    ] {
        let mut log = StatementLog::start(&database).await;
        assert_eq!(service.charge(path, &format!("{path}-{act}"), act).await.status, status);
        let all = log.statements_of(SERVICE).await;
        assert_statements(&all, expected);
        assert_eq!(commits(&all), 2, "{path} {act}");
    }
}

#[tokio::test]
async fn each_renewal_of_a_lease_is_one_statement() {
    let (database, service) = charging(2).await;
    let mut log = StatementLog::start(&database).await;
    let began = std::time::Instant::now();
    let first = service.begin_charge("/brief", "k", "wait_alone");
    service.probe.gate.entered().await;
    let renewed = async {
        loop {
            let all = log.statements_of(SERVICE).await;
            if all.len() > 4 {
                return all;
            }
        }
    };
    let all = soon("four renewals", renewed).await;
    let most = began.elapsed().as_millis() / 100;
    assert_statements(&all, &[&[LEASE], &vec![RENEW; all.len() - 1][..]].concat());
    assert!(
        (all.len() - 1) as u128 <= most,
        "{} renewals where a third of the lease has passed {most} times",
        all.len()
    );
    service.probe.gate.open();
    assert_ran(&first.await.unwrap());
    let all = log.statements_of(SERVICE).await;
    let (last, before) = all.split_last().unwrap();
    assert!(last.starts_with(COMPLETE), "{last}");
    assert_statements(before, &[&[LEASE], &vec![RENEW; before.len() - 1][..]].concat());
    assert_eq!(commits(&all), all.len());
}

#[tokio::test]
async fn a_sweep_costs_one_statement_and_what_the_dead_cost() {
    let (database, service) = charging(1).await;
    let sweeping = database.pool_with(1, database.options().application_name("sweeper")).await;
    let sweeper = Service::join(sweeping, |builder| builder).await;
    let recovery = charge::recovery(&sweeper.idempotency, &service.probe.network);
    // Prepared.
    assert_eq!(service.charge("/doubt", "warm-doubt", "panic").await.status, 500);
    assert_eq!(recovery.sweep().await.unwrap().completed, 1);

    let mut log = StatementLog::start(&database).await;
    assert_eq!(recovery.sweep().await.unwrap(), SweepReport::default());
    assert_statements(&log.statements_of("sweeper").await, &[SURVEY]);

    let take = [BEGIN_TO_TAKE, TAKE, "COMMIT"];
    let complete = [BEGIN_TO_COMPLETE, OWN, RESTORE, COMPLETE, "COMMIT"];
    let mut log = StatementLog::start(&database).await;
    assert_eq!(service.charge("/doubt", "k", "panic").await.status, 500);
    assert_eq!(recovery.sweep().await.unwrap().completed, 1);
    // The operations are asked for by their names: `brief` and `charge` have none, `doubt` has one.
    let one = [&[SURVEY][..], &take.repeat(3), &complete, &take].concat();
    assert_statements(&log.statements_of("sweeper").await, &one);

    // A record without a reconciler here costs nothing; the verdicts `NeverExecuted` and `Unknown` cost one statement.
    let nobody = sweeper.idempotency.recovery();
    for dead in [3, 12] {
        for number in 0..dead {
            assert_eq!(service.charge("/doubt", &format!("{dead}-{number}"), "panic").await.status, 500);
        }
        let mut log = StatementLog::start(&database).await;
        assert_eq!(nobody.sweep().await.unwrap().no_reconciler, dead);
        assert_statements(&log.statements_of("sweeper").await, &[SURVEY]);

        let mut log = StatementLog::start(&database).await;
        assert_eq!(recovery.sweep().await.unwrap().completed, dead);
        let all = log.statements_of("sweeper").await;
        let counted = |start: &str| all.iter().filter(|statement| statement.starts_with(start)).count() as u64;
        // Each worker also finds for each operation that none is left. Stalled attempts limit the number of workers.
        let workers = dead.min(8);
        assert_eq!((counted(SURVEY), counted(COMPLETE)), (1, dead));
        assert_eq!((counted(BEGIN_TO_TAKE), counted(TAKE)), (dead + 3 * workers, dead + 3 * workers));
        assert_eq!(all.len() as u64, 1 + 5 * dead + 3 * (dead + 3 * workers));
    }
}

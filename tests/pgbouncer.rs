//! Through PgBouncer in transaction mode, where every transaction may be on another session of the server.
//! sqlx must keep no prepared statements, PgBouncer must forget them after each transaction: settings for the docs.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use futures_util::future::join_all;
use idem_tests::{
    assertions::{assert_problem, assert_ran, assert_replayed, count, no_session, records, rows},
    databases::{Postgres, postgres},
    service::{Service, charge, prepare},
    soon,
};
use sqlx::{Connection, Executor, PgConnection, PgPool, postgres::PgConnectOptions};
use tempfile::TempDir;

/// Sessions that PgBouncer has with the server; clients have more.
const SESSIONS: u32 = 4;

/// A PgBouncer of the test's own. Dropping it ends it.
struct Bouncer {
    process: Child,
    options: PgConnectOptions,
    _folder: TempDir,
}

impl Bouncer {
    async fn start(database: &Postgres) -> Self {
        let folder = tempfile::Builder::new().prefix("idem-bouncer-").tempdir().expect("a temporary folder");
        // As root it changes to another user, who must be able to read.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a folder of ours");
        let settings = folder.path().join("pgbouncer.ini");
        let server = database.options();
        for _ in 0..10 {
            // A port that is free now can be taken a moment later, so the start decides.
            let port = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a free port").port();
            // Even without its cache sqlx gives statements names, which the next client of the session would give too.
            let text = format!(
                "[databases]\n* = host={} port={} user={}\n\
                 [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
                 pool_mode = transaction\ndefault_pool_size = {SESSIONS}\nmax_client_conn = 100\n\
                 ignore_startup_parameters = extra_float_digits\n\
                 server_reset_query = DEALLOCATE ALL\nserver_reset_query_always = 1\n{}",
                server.get_host(),
                server.get_port(),
                server.get_username(),
                if is_root() { "user = nobody\n" } else { "" },
            );
            fs::write(&settings, text).expect("the settings");
            let mut command = Command::new(program());
            command.arg("-q").arg(&settings).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut process = command.spawn().expect("pgbouncer");
            let options =
                server.clone().host("127.0.0.1").port(port).database(database.name()).statement_cache_capacity(0);
            let up = async {
                loop {
                    if PgConnection::connect_with(&options).await.is_ok() {
                        return true;
                    }
                    if process.try_wait().expect("a child").is_some() {
                        return false;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            if soon("PgBouncer", up).await {
                return Self { process, options, _folder: folder };
            }
        }
        panic!("{} ends at once with these settings: {}", program().display(), fs::read_to_string(settings).unwrap())
    }

    async fn pool(&self, database: &Postgres, size: u32) -> PgPool {
        database.pool_with(size, self.options.clone()).await
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let found = folders.map(|folder| folder.join("pgbouncer")).find(|program| program.is_file());
    found.unwrap_or_else(|| {
        panic!("this test needs PgBouncer, in PATH or in /usr/sbin: run tests/run as root, or install it (Debian: pgbouncer)")
    })
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[tokio::test]
async fn b51_the_main_paths() {
    let database = postgres().await;
    let bouncer = Bouncer::start(&database).await;
    let service = Service::start_with(&database, bouncer.pool(&database, 8).await, |builder| builder).await;
    // Often enough for transactions to change sessions.
    for number in 0..20 {
        let (key, declined) = (format!("k{number}"), format!("declined{number}"));
        assert_ran(&service.send(&key, "write").await);
        assert_replayed(&service.send(&key, "write").await);
        assert_problem(&service.send(&key, "decline").await, 422, "idempotency-key-reuse");
        for replayed in [None, Some("true")] {
            let refused = service.send(&declined, "decline").await;
            assert_eq!((refused.status, refused.header("idempotent-replayed")), (402, replayed));
        }
        assert_eq!((rows(&database, &key).await, rows(&database, &declined).await), (1, 0));
    }
    assert_problem(&service.send("panicked", "panic").await, 500, "idempotency-handler-panicked");
    assert_problem(&service.send("swallowed", "swallow_last").await, 500, "idempotency-transaction-aborted");
    assert_eq!((records(&database).await, service.runs()), (41, 42));
}

#[tokio::test]
async fn b51_many_at_once_over_two_pools() {
    let database = postgres().await;
    let bouncer = Bouncer::start(&database).await;
    prepare(&database).await;
    let one = Service::join(bouncer.pool(&database, 10).await, |builder| builder).await;
    let other = Service::join(bouncer.pool(&database, 10).await, |builder| builder).await;
    let services = [&one, &other];

    let keys = join_all((0..60).map(|number| {
        let service = services[number % 2];
        async move { service.send(&format!("k{number}"), "write").await }
    }));
    for answer in keys.await {
        assert_ran(&answer);
    }
    let twins = join_all((0..50).map(|number| services[number % 2].send("twin", "write"))).await;
    let ran = twins.iter().filter(|answer| answer.status == 201 && answer.header("idempotent-replayed").is_none());
    assert_eq!(ran.count(), 1);
    assert!(twins.iter().all(|answer| matches!(answer.status, 201 | 409)));
    assert_eq!((rows(&database, "twin").await, one.runs() + other.runs()), (1, 61));
}

#[tokio::test]
async fn b51_a_twin_at_another_process_is_turned_away() {
    let database = postgres().await;
    let bouncer = Bouncer::start(&database).await;
    prepare(&database).await;
    let one = Service::join(bouncer.pool(&database, 2).await, |builder| builder).await;
    let other = Service::join(bouncer.pool(&database, 2).await, |builder| builder).await;
    let first = one.begin("k", "wait");
    one.probe.gate.entered().await;
    for _ in 0..10 {
        assert_problem(&other.send("k", "wait").await, 409, "in-progress");
        assert_problem(&other.send("k", "write").await, 422, "idempotency-key-reuse");
    }
    one.probe.gate.open();
    assert_ran(&first.await.unwrap());
    assert_replayed(&other.send("k", "wait").await);
    assert_eq!((rows(&database, "k").await, one.runs(), other.runs()), (1, 1, 0));
}

#[tokio::test]
async fn b51_nothing_stays_in_a_session() {
    let database = postgres().await;
    let bouncer = Bouncer::start(&database).await;
    let service = Service::start_with(&database, bouncer.pool(&database, 4).await, |builder| builder).await;
    assert_ran(&service.send("k", "write").await);
    assert_replayed(&service.send("k", "write").await);
    assert_eq!(service.send("declined", "decline").await.status, 402);
    // PgBouncer keeps its sessions open, so what was session-wide would still be there.
    no_session(&database, "state LIKE 'idle in transaction%'").await;
    let locks = "pg_locks JOIN pg_database AS d ON d.oid = database \
                 WHERE locktype = 'advisory' AND d.datname = current_database()";
    assert_eq!(count(&database, locks).await, 0);
}

#[tokio::test]
async fn b51_effects_elsewhere() {
    let database = postgres().await;
    let bouncer = Bouncer::start(&database).await;
    prepare(&database).await;
    let one = Service::join(bouncer.pool(&database, 8).await, |builder| builder).await;
    let other = Service::join(bouncer.pool(&database, 8).await, |builder| builder).await;
    // Often enough, and so many at once, that transactions change sessions.
    for round in 0..10 {
        let charges = join_all((0..8).map(|number| {
            let service = [&one, &other][number % 2];
            let act = ["write", "alone"][number / 4];
            async move { service.charge("/charge", &format!("{act}-{round}-{number}"), act).await }
        }));
        for answer in charges.await {
            assert_ran(&answer);
        }
        assert_replayed(&other.charge("/charge", &format!("write-{round}-0"), "write").await);
        assert_problem(
            &other.charge("/charge", &format!("write-{round}-0"), "alone").await,
            422,
            "idempotency-key-reuse",
        );
        let declined = one.charge("/charge", &format!("declined-{round}"), "decline").await;
        assert_eq!((declined.status, rows(&database, &format!("declined-{round}")).await), (402, 0));
        assert_eq!(one.charge("/charge", &format!("nothing-{round}"), "nothing").await.status, 400);
    }
    assert_eq!((records(&database).await, count(&database, "effects").await), (90, 40));
    assert_eq!(count(&database, "idem_records WHERE attempt IS NOT NULL").await, 0);
    no_session(&database, "state LIKE 'idle in transaction%'").await;
}

#[tokio::test]
async fn b51_a_lease_is_held_renewed_and_recovered() {
    let database = postgres().await;
    let bouncer = Bouncer::start(&database).await;
    prepare(&database).await;
    let one = Service::join(bouncer.pool(&database, 4).await, |builder| builder).await;
    let other = Service::join(bouncer.pool(&database, 4).await, |builder| builder).await;
    let (held, brief) = (one.begin_charge("/charge", "k", "wait"), one.begin_charge("/brief", "brief", "wait"));
    one.probe.gate.entered().await;
    one.probe.gate.entered().await;
    for _ in 0..5 {
        assert_problem(&other.charge("/charge", "k", "wait").await, 409, "in-progress");
        assert_problem(&other.charge("/charge", "k", "write").await, 422, "idempotency-key-reuse");
    }
    let renewed = async {
        let moved = "idem_records WHERE operation = 'brief' AND lease_until > created_at + interval '1 s'";
        while count(&database, moved).await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("renewals", renewed).await;
    let lapse = "UPDATE idem_records SET lease_until = clock_timestamp() WHERE operation = 'charge'";
    database.connect().await.execute(lapse).await.unwrap();
    let recovery = other.idempotency.recovery().reconciler("charge", charge::ByKey(one.probe.network.clone()));
    assert_eq!(recovery.sweep().await.unwrap().completed, 1);
    one.probe.gate.open();
    assert_problem(&held.await.unwrap(), 503, "idempotency-outcome-unknown");
    assert_ran(&brief.await.unwrap());
    assert_eq!(other.charge("/charge", "k", "wait").await.text(), "by the recovery");
    assert_eq!((count(&database, "effects").await, one.probe.network.charges()), (2, 2));
    no_session(&database, "state LIKE 'idle in transaction%'").await;
    let locks = "pg_locks JOIN pg_database AS d ON d.oid = database \
                 WHERE locktype = 'advisory' AND d.datname = current_database()";
    assert_eq!(count(&database, locks).await, 0);
}

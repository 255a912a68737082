//! How the library's own statements are executed where the table holds a million records: what the databases say they do,
//! of the very text they were sent. Nothing here measures time.

use std::{
    fmt,
    sync::{Mutex, Once},
    thread,
};

use idem_runtime::recovery::Verdict;
use idem_tests::{
    assertions::{assert_problem, assert_ran, assert_replayed},
    databases::{postgres, sqlite},
    service::{Service, sqlite_app},
};
use sqlx::{AssertSqlSafe, Executor, Row};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    filter::Targets,
    layer::{Context, Layer, SubscriberExt},
    util::SubscriberInitExt,
};

/// The notices that PostgreSQL's `auto_explain` has sent to its clients.
static PLANS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What SQLite was sent.
static SENT: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Listener;

impl<S: Subscriber> Layer<S> for Listener {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        if event.metadata().target() == "sqlx::postgres::notice" {
            PLANS.lock().unwrap().push(text.message);
        } else if thread::current().name().is_some_and(|name| name.starts_with("sqlx-sqlite")) {
            let whole = if text.statement.is_empty() { text.summary } else { text.statement };
            SENT.lock().unwrap().push(whole.trim().to_owned());
        }
    }
}

#[derive(Default)]
struct Text {
    message: String,
    summary: String,
    statement: String,
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            "summary" => value.clone_into(&mut self.summary),
            "db.statement" => value.clone_into(&mut self.statement),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
    }
}

fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let targets =
            Targets::new().with_targets([("sqlx::postgres::notice", Level::INFO), ("sqlx::query", Level::DEBUG)]);
        tracing_subscriber::registry().with(Listener.with_filter(targets)).init();
    });
}

/// A million records, of which the first 2500 have expired, and 3000 attempts that are alive.
const FILL: &str = "\
    INSERT INTO idem_records (id, operation, fingerprint, format, status, headers, body, created_at, expires_at) \
    SELECT convert_to(lpad(n::text, 32, '0'), 'UTF8'), 'charge', '\\x01', 1, 200, '', '', now(), \
           now() + make_interval(secs => n - 2500) + interval '-1 hour' * (n <= 2500)::int + interval '1 hour' * (n > 2500)::int \
      FROM generate_series(1, 1000000) AS n; \
    INSERT INTO idem_records \
        (id, operation, fingerprint, format, status, headers, body, created_at, expires_at, attempt, lease_until, retention) \
    SELECT convert_to(lpad(n::text, 32, 'a'), 'UTF8'), 'charge', '\\x01', 0, 0, '', '', now(), 'infinity', \
           '\\x000102030405060708090a0b0c0d0e0f', now() + interval '1 hour', 86400 \
      FROM generate_series(1, 3000) AS n";

const FILL_SQLITE: &str = "\
    INSERT INTO idem_records (id, operation, fingerprint, format, status, headers, body, created_at, expires_at) \
    WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < 1000000) \
    SELECT CAST(printf('%032d', n) AS BLOB), 'charge', X'01', 1, 200, X'', X'', 0, \
           CASE WHEN n <= 2500 THEN 1 ELSE 32503680000000 + n END FROM series";

/// The numbers behind a word in a plan.
fn numbers(plan: &str, word: &str) -> Vec<f64> {
    let after = plan.match_indices(word).map(|(at, _)| &plan[at + word.len()..]);
    let digits = after.map(|rest| rest.split(|next: char| !next.is_ascii_digit() && next != '.').next().unwrap());
    digits.map(|digits| digits.parse().unwrap_or_else(|_| panic!("{digits:?} in {plan}"))).collect()
}

/// The plans of one kind of statement; there are some. No row of one was looked at in vain, but for `most`.
#[track_caller]
fn assert_plans(plans: &[String], statement: &str, index: &str, most: f64) {
    let mine: Vec<_> = plans.iter().filter(|plan| plan.contains(statement)).collect();
    assert!(!mine.is_empty(), "no {statement} in {plans:#?}");
    for plan in mine {
        assert!(!plan.contains("Seq Scan on idem_records"), "{plan}");
        assert!(plan.contains(index), "{index} is not in {plan}");
        let looked_at = [numbers(plan, "(actual rows="), numbers(plan, "Rows Removed by Filter: ")].concat();
        assert!(looked_at.iter().all(|rows| *rows <= most), "more than {most} rows in {plan}");
    }
}

#[tokio::test]
async fn b65_a_million_records_on_postgres() {
    listen();
    let database = postgres().await;
    let plain = Service::start(&database).await;
    plain.pool.execute(FILL).await.unwrap();
    plain.pool.execute("ANALYZE idem_records").await.unwrap();
    // As on the first executions of a prepared statement, and as on all later ones.
    for mode in ["force_custom_plan", "force_generic_plan"] {
        let explained = database.options().options([
            ("session_preload_libraries", "auto_explain"),
            ("auto_explain.log_min_duration", "0"),
            ("auto_explain.log_analyze", "on"),
            ("auto_explain.log_timing", "off"),
            ("auto_explain.log_level", "notice"),
            ("plan_cache_mode", mode),
        ]);
        let service = Service::join(database.pool_with(1, explained).await, |builder| builder).await;
        let key = |name: &str| format!("{name}-{mode}");
        PLANS.lock().unwrap().clear();
        assert_ran(&service.send(&key("own"), "write").await);
        assert_replayed(&service.send(&key("own"), "write").await);
        assert_ran(&service.charge("/charge", &key("k"), "write").await);
        assert_replayed(&service.charge("/charge", &key("k"), "write").await);
        assert_eq!(service.charge("/charge", &key("n"), "nothing").await.status, 400);
        for number in 0..3 {
            assert_eq!(service.charge("/doubt", &key(&number.to_string()), "panic").await.status, 500);
        }
        assert_problem(&service.charge("/doubt", &key("0"), "panic").await, 409, "in-progress");
        let stalled = service.idempotency.stalled().await.unwrap();
        assert_eq!(stalled.len(), 3);
        service.idempotency.resolve(stalled[0].id(), "ada", Verdict::NeverExecuted).await.unwrap();
        assert_eq!(service.sweep().await.completed, 2);
        assert_eq!(service.sweep().await, idem_runtime::recovery::SweepReport::default());
        let pruned = service.idempotency.prune().await.unwrap();
        assert_eq!(pruned, if mode == "force_custom_plan" { 2500 } else { 0 });

        let plans = std::mem::take(&mut *PLANS.lock().unwrap());
        let (key_index, in_progress) = ("idem_records_pkey", "idem_records_in_progress");
        for (statement, index, most) in [
            ("SELECT r.operation", key_index, 1.0),
            ("WITH held AS", key_index, 1.0),
            ("SET format = ", key_index, 1.0),
            ("DELETE FROM idem_records WHERE id = $1", key_index, 1.0),
            ("SET lease_until = ", key_index, 1.0),
            ("SET attempt = $1", in_progress, 1.0),
            ("count(*) FILTER", in_progress, 3.0),
            ("DELETE FROM idem_records WHERE id = ANY", "idem_records_expires_at", 1000.0),
        ] {
            // By hand it is taken by its key.
            let (by_key, others): (Vec<_>, Vec<_>) = plans
                .iter()
                .cloned()
                .partition(|plan| plan.contains("SET attempt = $1") && plan.contains("WHERE id = $3"));
            assert_plans(&others, statement, index, most);
            assert_plans(&by_key, "SET attempt = $1", key_index, 1.0);
        }
        // The list of the stalled is for people: it may pass by the attempts that live, which are few as a rule.
        assert_plans(&plans, "SELECT id, operation, (extract", in_progress, 3003.0);
    }
}

#[tokio::test]
async fn b65_a_million_records_on_sqlite() {
    listen();
    let database = sqlite();
    let service = sqlite_app::Service::start(database.pool(1).await).await;
    service.pool.execute("PRAGMA synchronous = OFF").await.unwrap();
    service.pool.execute(FILL_SQLITE).await.unwrap();
    SENT.lock().unwrap().clear();
    assert_ran(&service.charge("/charge", "k", "write").await);
    assert_replayed(&service.charge("/charge", "k", "write").await);
    assert_eq!(service.charge("/charge", "n", "nothing").await.status, 400);
    for key in ["0", "1", "2"] {
        assert_eq!(service.charge("/doubt", key, "panic").await.status, 500);
    }
    assert_problem(&service.charge("/doubt", "0", "panic").await, 409, "in-progress");
    let stalled = service.idempotency.stalled().await.unwrap();
    assert_eq!(stalled.len(), 3);
    service.idempotency.resolve(stalled[0].id(), "ada", Verdict::NeverExecuted).await.unwrap();
    assert_eq!(service.sweep().await.completed, 2);
    assert_eq!(service.idempotency.prune().await.unwrap(), 2500);

    let mut sent = std::mem::take(&mut *SENT.lock().unwrap());
    sent.retain(|statement| statement.contains("idem_records"));
    sent.sort();
    sent.dedup();
    let mut of = std::collections::BTreeMap::new();
    for statement in sent.iter().flat_map(|statements| statements.split("; ")) {
        let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}")));
        let steps = explain.fetch_all(&service.pool).await.unwrap_or_else(|error| panic!("{error}: {statement}"));
        let steps: Vec<String> = steps.iter().map(|step| step.get("detail")).collect();
        for step in &steps {
            let scans_all = step.starts_with("SCAN idem_records") && !step.contains("INDEX idem_records_in_progress");
            assert!(!scans_all, "{step}: {statement}");
        }
        of.insert(statement.to_owned(), steps.join("\n"));
    }
    for (statement, step) in [
        (
            "SELECT expires_at IS NOT NULL AS expires, operation",
            "SEARCH idem_records USING INDEX sqlite_autoindex_idem_records_1 (id=?)",
        ),
        ("SET format = ?3", "USING INDEX sqlite_autoindex_idem_records_1 (id=?)"),
        ("DELETE FROM idem_records WHERE id = ?1", "USING INDEX sqlite_autoindex_idem_records_1 (id=?)"),
        ("SET attempt = ?1", "idem_records_in_progress (operation=? AND lease_until<?)"),
        ("count(*) FILTER", "INDEX idem_records_in_progress"),
        ("ORDER BY created_at", "INDEX idem_records_in_progress"),
        ("DELETE FROM idem_records WHERE id IN", "idem_records_expires_at (expires_at<?)"),
    ] {
        let found = of.iter().any(|(text, steps)| text.contains(statement) && steps.contains(step));
        assert!(found, "no {statement} by {step} in {of:#?}");
    }
}

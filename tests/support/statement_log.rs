//! The statements that PostgreSQL really got, from its own log, so that a test can count them.
//! Needs the server settings of `tests/run`: `log_statement = all`, `log_line_prefix = '%d %a %p '`, a logging collector.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};

use crate::{databases::Postgres, soon, unique};

/// The log of one database from a moment on.
pub struct StatementLog {
    server: PgConnection,
    file: String,
    database: String,
    start: i64,
}

impl StatementLog {
    /// Begins now: what was completed before is not in it.
    pub async fn start(database: &Postgres) -> Self {
        let mut server = database.connect_to_server().await;
        // From its present end, behind which the marker will be: a whole run's log is long.
        let state =
            "SELECT file, current_setting('log_statement'), (pg_stat_file(file)).size FROM pg_current_logfile() file";
        let state = server.fetch_one(state).await.expect("a superuser's connection");
        let (file, level, start): (Option<String>, String, Option<i64>) = (state.get(0), state.get(1), state.get(2));
        let (Some(file), Some(start), "all") = (file, start, level.as_str()) else {
            panic!("the server does not collect a log of all statements: use that of tests/run")
        };
        let mut log = Self { server, file, database: database.name().to_owned(), start };
        log.start = log.read_to_now().await.1;
        log
    }

    /// Every statement since the start, in order, as the server got it.
    pub async fn statements(&mut self) -> Vec<String> {
        self.select(|_| true).await
    }

    /// The same, of the connections with one application name.
    pub async fn statements_of(&mut self, application: &str) -> Vec<String> {
        self.select(|name| name == application).await
    }

    /// The statements that could not be serialized. The log has each directly behind its error.
    pub async fn not_serialized(&mut self) -> Vec<String> {
        let text = self.read_to_now().await.0;
        let entries = entries(&text);
        let mine = entries
            .iter()
            .filter_map(|entry| entry.strip_prefix(&self.database)?.split_once(" ERROR:  could not serialize"));
        let failures = mine.count();
        let statements =
            entries.iter().filter_map(|entry| entry.strip_prefix(&self.database)?.split_once(" STATEMENT:  "));
        let statements: Vec<_> = statements.map(|(_, sql)| sql.to_owned()).collect();
        assert_eq!(failures, statements.len(), "every error of this test is one of serialization: {statements:?}");
        statements
    }

    async fn select(&mut self, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let text = self.read_to_now().await.0;
        let entries = entries(&text);
        let mine = entries.iter().filter_map(|entry| parse(entry, &self.database));
        mine.filter(|(application, _)| wanted(application)).map(|(_, sql)| sql).collect()
    }

    /// The log up to now and its length. The collector writes behind the server's back but in order, so a statement of
    /// our own, once seen, shows that all before it are there. What comes after it is left for the next time.
    async fn read_to_now(&mut self) -> (String, i64) {
        let marker = format!("SELECT 'marker {}'", unique());
        self.server.execute(AssertSqlSafe(marker.as_str())).await.expect("the marker statement");
        let read = async {
            loop {
                let read =
                    sqlx::query("SELECT pg_read_binary_file($1, $2, 1000000000)").bind(&self.file).bind(self.start);
                let log: Vec<u8> = read.fetch_one(&mut self.server).await.expect("the server's log file").get(0);
                if let Some(end) = log.windows(marker.len()).position(|here| here == marker.as_bytes()) {
                    return (
                        String::from_utf8_lossy(&log[..end]).into_owned(),
                        self.start + i64::try_from(end).expect("a length"),
                    );
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon("the server's log", read).await
    }

    /// Ends the connection that reads.
    pub async fn close(self) {
        self.server.close().await.expect("a clean end");
    }
}

/// One string an entry: a statement's further lines are those that begin with a tab.
fn entries(text: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix('\t'), entries.last_mut()) {
            (Some(more), Some(entry)) => {
                entry.push('\n');
                entry.push_str(more);
            }
            _ => entries.push(line.to_owned()),
        }
    }
    entries
}

/// Application name and SQL of an entry `DATABASE APPLICATION PID LOG:  statement: SQL` or `… execute NAME: SQL`.
fn parse(entry: &str, database: &str) -> Option<(String, String)> {
    let (prefix, message) = entry.strip_prefix(database)?.strip_prefix(' ')?.split_once(" LOG:  ")?;
    let (application, _pid) = prefix.rsplit_once(' ')?;
    let sql = match message.strip_prefix("statement: ") {
        Some(sql) => sql,
        None => message.strip_prefix("execute ")?.split_once(": ")?.1,
    };
    Some((application.to_owned(), sql.to_owned()))
}

//! The schema that holds the tables, where the application chose one.
//! Statements are constants that name the tables alone; here the schema goes before each name.

use std::sync::Arc;

#[cfg(feature = "postgres")]
use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

#[cfg(feature = "postgres")]
const TABLES: [&str; 2] = ["idem_records", "idem_schema"];

/// The longest name that every database accepts, in bytes.
const MAX_LENGTH: usize = 63;

/// A schema by its name, or the one that the session finds the tables in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema(Option<Arc<str>>);

impl Schema {
    /// A schema by its name.
    ///
    /// # Panics
    /// Unless the name is 1 to 63 ASCII letters, digits and underscores, and begins with none of the digits: others would
    /// need quotes that differ between databases.
    #[track_caller]
    pub(crate) fn named(name: &str) -> Self {
        let plain = name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
        let begins_well = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
        assert!(
            plain && begins_well && name.len() <= MAX_LENGTH,
            "`schema` must be 1 to {MAX_LENGTH} ASCII letters, digits and underscores, not a digit first: {name:?}"
        );
        Self(Some(name.into()))
    }
}

// Only the builder of a database with schemas sets one, see `Schemas`.
#[cfg(feature = "postgres")]
impl Schema {
    pub(super) fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// The statement with this schema before the name of each table, in the database's quotation marks.
    pub(super) fn sql(&self, statement: &'static str, quote: char) -> SqlStr {
        match self.name() {
            None => statement.into_sql_str(),
            // The name holds no quotation mark, see `named`.
            Some(name) => AssertSqlSafe(qualified(statement, &format!("{quote}{name}{quote}."))).into_sql_str(),
        }
    }
}

/// The statement with the prefix before the name of each table. A longer word, such as the name of an index, is no table's name.
#[cfg(feature = "postgres")]
fn qualified(statement: &str, prefix: &str) -> String {
    let mut qualified = String::with_capacity(statement.len() + 4 * prefix.len());
    let mut rest = statement;
    while !rest.is_empty() {
        let word = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(word);
        if TABLES.contains(&word) {
            qualified.push_str(prefix);
        }
        qualified.push_str(word);
        let next = after.find(|c: char| c == '_' || c.is_ascii_alphanumeric()).unwrap_or(after.len());
        let (between, after) = after.split_at(next);
        qualified.push_str(between);
        rest = after;
    }
    qualified
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;

    #[test]
    fn the_schema_stands_before_the_tables_and_nothing_else() {
        let statement = "INSERT INTO idem_records (id) SELECT 'idem_records'::regclass FROM idem_schema; \
                         CREATE INDEX idem_records_expires_at ON idem_records (expires_at); SELECT 'idem.attempt'";
        let expected = "INSERT INTO \"app\".idem_records (id) SELECT '\"app\".idem_records'::regclass FROM \"app\".idem_schema; \
                        CREATE INDEX idem_records_expires_at ON \"app\".idem_records (expires_at); SELECT 'idem.attempt'";
        assert_eq!(Schema::named("app").sql(statement, '"').as_str(), expected);
        assert_eq!(Schema::default().sql(statement, '"').as_str(), statement);
    }

    #[test]
    fn a_name_that_needs_more_than_quotation_marks_is_refused() {
        for name in ["", "a b", "a\"b", "a`b", "1a", "a.b", "ä", &"a".repeat(64)] {
            assert!(std::panic::catch_unwind(|| Schema::named(name)).is_err(), "{name:?}");
        }
        for name in ["a", "_", "App_1", "user", &"a".repeat(63)] {
            assert_eq!(Schema::named(name).name(), Some(name));
        }
    }
}

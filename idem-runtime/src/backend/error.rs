//! The errors of an operator's calls: migrate, check, prune, sweep.
//! Requests never see these; they get a [`Problem`](crate::Problem).

/// An error of [`Idempotency`](crate::Idempotency)'s own calls.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database returned an error, or could not be reached.
    #[error("the idempotency store's database failed")]
    Database(#[from] sqlx::Error),
    /// The table is not there, or is one that idem did not make.
    #[error(
        "the table `idem_records` is missing or not idem's: call `migrate()` or run the SQL files of `migrations/`"
    )]
    SchemaMissing,
    /// The table was made by another version of idem.
    #[error(
        "the table `idem_records` has version {found}, this build needs {expected}: if it is older call `migrate()`, if it is newer deploy a newer idem"
    )]
    SchemaVersion {
        /// The version that the database has.
        found: i32,
        /// The version that this build needs.
        expected: i32,
    },
    /// No unique constraint is on the column `id` alone: the table is partitioned by another column, or was changed. A
    /// deferrable constraint does not count.
    #[error("the column `id` of `idem_records` is not unique by itself: make `id` alone the table's primary key")]
    IdNotUnique,
    /// The role of the pool lacks a right that requests need.
    #[error("the role of the pool lacks a right: {missing}")]
    NotPermitted {
        /// What to grant, or the database's own words.
        missing: String,
    },
    /// The database accepts no writes: a standby, a read-only role or file.
    #[error("the database accepts no writes: point the pool to the primary, or make the role or the file writable")]
    ReadOnly,
}

//! Columns that are never NULL, unless somebody dropped the constraint: then the record is unreadable and nothing runs.
//! The driver of SQLite reads a NULL as 0 or as empty, so an `Option` asks for it.

use sqlx::{ColumnIndex, Decode, Row, Type, error::UnexpectedNullError};

/// A value that must be there.
pub(super) fn column<'r, R, T>(row: &'r R, name: &'static str) -> Result<T, sqlx::Error>
where
    R: Row,
    T: Decode<'r, R::Database> + Type<R::Database>,
    &'static str: ColumnIndex<R>,
{
    row.try_get::<Option<T>, _>(name)?.ok_or_else(|| null(name))
}

/// The error of a column that is NULL.
pub(super) fn null(name: &str) -> sqlx::Error {
    sqlx::Error::ColumnDecode { index: format!("{name:?}"), source: Box::new(UnexpectedNullError) }
}

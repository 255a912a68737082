//! PostgreSQL: whether a service can work with the table as it is, as this role, on this server.
//! The server is asked to do what a request does; a transaction that is rolled back undoes it.

use bytes::Bytes;
use sqlx::{Connection, PgConnection, Postgres};

use super::{code, sql};
use crate::{
    backend::{
        AttemptId, Backend, ClaimOutcome, ClaimRequest, Durability, Purpose, Schema, Session, WriteOutcome,
        error::Error, expect_version,
    },
    model::{fingerprint::Fingerprint, record::Record, record_id::RecordId, retention::Retention},
};

pub(super) async fn check(connection: &mut PgConnection, schema: &Schema) -> Result<(), Error> {
    let checked = match is_as_made(connection, schema).await {
        Ok(()) => claim_and_record(connection, schema).await,
        other => other,
    };
    match checked {
        Ok(()) => warn_of_settings(connection, schema).await,
        // insufficient_privilege
        Err(Error::Database(error)) if code(&error).as_deref() == Some("42501") => {
            Err(not_permitted(connection, schema, &error).await?)
        }
        // invalid_column_reference: no index fits ON CONFLICT; object_not_in_prerequisite_state: its constraint is deferrable.
        Err(Error::Database(error)) if matches!(code(&error).as_deref(), Some("42P10" | "55000")) => {
            Err(Error::IdNotUnique)
        }
        Err(error) => Err(error),
    }
}

async fn is_as_made(connection: &mut PgConnection, schema: &Schema) -> Result<(), Error> {
    let version = match sqlx::query_scalar(sql::within(schema, sql::VERSION)).fetch_one(&mut *connection).await {
        // undefined_table
        Err(error) if code(&error).as_deref() == Some("42P01") => None,
        other => other?,
    };
    expect_version(version)?;
    let as_made = sqlx::query_scalar(sql::within(schema, sql::SCHEMA_AS_MADE)).fetch_one(connection).await?;
    if as_made { Ok(()) } else { Err(Error::SchemaMissing) }
}

/// Claims a key that no request has, and writes its record, by the statements of a request.
async fn claim_and_record(connection: &mut PgConnection, schema: &Schema) -> Result<(), Error> {
    let attempt = AttemptId::random().map_err(|error| sqlx::Error::Io(std::io::Error::other(error.to_string())))?;
    let fingerprint = Fingerprint::of_nothing();
    let request = ClaimRequest {
        id: RecordId::of_attempt_without_key(attempt.as_bytes()),
        fingerprint,
        bytes: fingerprint,
        operation: "check",
        retention: Retention::DAY,
        durability: Durability::OfSession,
        session: Session::AsLeft,
    };
    let mut transaction = connection.begin_with(Postgres::begin(None, Purpose::Claim(&request))).await?;
    let written = match Postgres::claim(&mut transaction, schema, &request).await? {
        ClaimOutcome::Claimed(token) => {
            let record = Record {
                fingerprint: fingerprint.to_bytes(),
                format: 0,
                status: 0,
                headers: vec![],
                body: Bytes::new(),
            };
            Postgres::record(&mut transaction, schema, &token, &request, record).await?
        }
        ClaimOutcome::ReadOnly => return Err(Error::ReadOnly),
        ClaimOutcome::NotPermitted => {
            transaction.rollback().await?;
            let missing = missing(connection, schema).await?.unwrap_or_default();
            return Err(Error::NotPermitted { missing });
        }
        // The look coincided with others: none of these means that something is missing.
        _ => WriteOutcome::Written,
    };
    transaction.rollback().await?;
    match written {
        WriteOutcome::Written => Ok(()),
        // A trigger or a rule swallowed the row.
        WriteOutcome::Lost | WriteOutcome::TransactionEnded | WriteOutcome::TableHidden => Err(Error::SchemaMissing),
    }
}

/// What the role may not do: what it lacks on the table, or what the server has named.
async fn not_permitted(connection: &mut PgConnection, schema: &Schema, error: &sqlx::Error) -> Result<Error, Error> {
    let named = || error.as_database_error().map_or_else(|| error.to_string(), |error| error.message().to_owned());
    Ok(Error::NotPermitted { missing: missing(connection, schema).await?.unwrap_or_else(named) })
}

async fn missing(connection: &mut PgConnection, schema: &Schema) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar(sql::within(schema, sql::MISSING_RIGHTS)).fetch_one(connection).await
}

async fn warn_of_settings(connection: &mut PgConnection, schema: &Schema) -> Result<(), Error> {
    let (not_durable, may_delete, row_security): (bool, bool, bool) =
        sqlx::query_as(sql::within(schema, sql::SETTINGS)).fetch_one(connection).await?;
    if not_durable {
        tracing::warn!(
            "synchronous_commit is off: a crash of the server can lose responses that clients have, with their effects \
             (not those of consumers, webhooks and external effects)"
        );
    }
    if row_security {
        tracing::warn!(
            "row-level security applies to `idem_records`: a record that its policies hide makes every retry fail"
        );
    }
    if !may_delete {
        tracing::warn!("the role of the pool may not DELETE from `idem_records`: pruning and external effects need it");
    }
    Ok(())
}

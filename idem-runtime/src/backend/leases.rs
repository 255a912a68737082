//! The part of a backend for external effects: keys held in progress by a lease, not by a lock.
//! Every write after the claim demands the attempt's identifier: an attempt that has lost its lease writes nothing.

use std::{future::Future, time::Duration};

use sqlx::Database;

use super::{
    rows::{AttemptId, ClaimOutcome, Holder, LeaseRequest, StalledRow, Survey, Take, WriteOutcome},
    schema::Schema,
};
use crate::model::record::Record;

/// The leases of a database. [`Backend`](super::Backend) has the contract of each method.
pub trait Leases: Database + Sized {
    /// Claims the key for an attempt and commits that.
    #[doc(hidden)]
    fn lease(
        connection: &mut Self::Connection,
        schema: &Schema,
        lease: &LeaseRequest,
    ) -> impl Future<Output = Result<ClaimOutcome<()>, sqlx::Error>> + Send;

    /// Makes the lease end this long from now.
    #[doc(hidden)]
    fn renew(
        connection: &mut Self::Connection,
        schema: &Schema,
        holder: &Holder,
        length: Duration,
    ) -> impl Future<Output = Result<WriteOutcome, sqlx::Error>> + Send;

    /// Completes the record, outside any transaction.
    #[doc(hidden)]
    fn complete(
        connection: &mut Self::Connection,
        schema: &Schema,
        holder: &Holder,
        record: Record,
    ) -> impl Future<Output = Result<WriteOutcome, sqlx::Error>> + Send;

    /// Completes the record in the transaction that was opened for it.
    #[doc(hidden)]
    fn complete_within(
        connection: &mut Self::Connection,
        schema: &Schema,
        holder: &Holder,
        record: Record,
    ) -> impl Future<Output = Result<WriteOutcome, sqlx::Error>> + Send;

    /// Deletes the record in progress: the key is free.
    #[doc(hidden)]
    fn release(
        connection: &mut Self::Connection,
        schema: &Schema,
        holder: &Holder,
    ) -> impl Future<Output = Result<WriteOutcome, sqlx::Error>> + Send;

    /// Leaves the record in progress, due again after a pause. Stores the error, and the number of tries if one is given.
    #[doc(hidden)]
    fn postpone(
        connection: &mut Self::Connection,
        schema: &Schema,
        holder: &Holder,
        pause: Duration,
        error: Option<&str>,
        tries: Option<u32>,
    ) -> impl Future<Output = Result<WriteOutcome, sqlx::Error>> + Send;

    /// Takes over a stalled attempt's record, for another attempt to decide.
    #[doc(hidden)]
    fn take(
        connection: &mut Self::Connection,
        schema: &Schema,
        take: Take<'_>,
        attempt: AttemptId,
        length: Duration,
    ) -> impl Future<Output = Result<Option<StalledRow>, sqlx::Error>> + Send;

    /// Counts the stalled attempts.
    #[doc(hidden)]
    fn survey(
        connection: &mut Self::Connection,
        schema: &Schema,
        operations: &[&str],
        max_tries: u32,
    ) -> impl Future<Output = Result<Survey, sqlx::Error>> + Send;

    /// Lists up to `limit` stalled attempts, in the order in which they began.
    #[doc(hidden)]
    fn stalled(
        connection: &mut Self::Connection,
        schema: &Schema,
        limit: i64,
    ) -> impl Future<Output = Result<Vec<StalledRow>, sqlx::Error>> + Send;
}

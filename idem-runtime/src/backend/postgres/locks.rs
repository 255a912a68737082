//! PostgreSQL: the advisory locks of a claim, and the mark of a completing transaction.
//! Claims of two releases meet in the lock numbers while a deployment rolls, so they are pinned.

use std::fmt::Write as _;

use sqlx::PgConnection;

use super::sql;
use crate::{
    backend::{ClaimRequest, Duplicate, Holder},
    model::{
        digest::Digest,
        fingerprint::{Differences, Fingerprint},
    },
};

/// How the request that holds the key lock compares with ours; `None` if no transaction holds it.
pub(super) async fn holder(connection: &mut PgConnection, locks: &Locks) -> Result<Option<Duplicate>, sqlx::Error> {
    let same =
        sqlx::query_scalar(sql::HOLDER).bind(locks.key).bind(&locks.requests[..]).fetch_optional(connection).await?;
    Ok(same.map(|same| if same { Duplicate::Same } else { Duplicate::Other(Differences::UNKNOWN) }))
}

/// The advisory locks of an attempt.
pub(super) struct Locks {
    pub(super) key: i64,
    /// One for each of the request's fingerprints.
    pub(super) requests: [i64; 2],
}

impl Locks {
    pub(super) fn of(request: &ClaimRequest) -> Self {
        let lock = |fingerprint: Fingerprint| {
            number(Digest::of("request", [request.id.as_bytes(), &fingerprint.to_bytes()]).as_bytes())
        };
        Self { key: number(request.id.as_bytes()), requests: request.fingerprints().map(lock) }
    }

    /// What takes the locks, in the message that opens the transaction, so that they cost no round trip. Only the simple
    /// protocol carries more than one statement, and it binds nothing: what is formatted in are integers.
    ///
    /// Every attempt holds its locks until its transaction ends. The request locks are shared and taken first, so a claim
    /// that finds the key lock taken can read in `pg_locks` which request its holder runs. An attempt that gets the key lock is
    /// given a transaction identifier, which tells `LOOK` so, and at the end that the transaction is still the same.
    ///
    /// The locks come before BEGIN, which takes what stands before it in the message into its transaction: should they
    /// fail (no lock memory, a cancelled statement), no transaction has been opened, of which sqlx would not know. The
    /// savepoint comes after them, because rolling back to it must not give them up.
    pub(super) fn take(&self) -> String {
        let Self { key, requests: [bytes, fingerprint] } = self;
        format!(
            "SELECT pg_advisory_xact_lock_shared({bytes}), pg_advisory_xact_lock_shared({fingerprint}), \
                    CASE WHEN current_setting('transaction_read_only') = 'off' AND pg_try_advisory_xact_lock({key}) \
                         THEN pg_current_xact_id() END; "
        )
    }
}

/// The advisory lock of a digest: its first 64 bits. Of two keys that run at one moment, one pair in 2^64 shares it.
fn number(digest: &[u8]) -> i64 {
    digest.first_chunk().map_or(0, |start| i64::from_be_bytes(*start))
}

/// In the message that opens a transaction: its commit waits for the disk, whatever the session's default. What waits for
/// standbys too is left as it is.
pub(super) const DURABLE: &str =
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'; ";

/// The role and the path that the record is completed with.
const KEEP_SESSION: &str = "SELECT set_config('idem.role', current_setting('role'), true), \
                                   set_config('idem.search_path', current_setting('search_path'), true); ";

/// Marks the transaction that the message around it opens: a setting that goes with the transaction, however it ends.
pub(super) fn mark(holder: &Holder) -> String {
    let mut statement = String::from("SET LOCAL idem.attempt = '");
    for byte in holder.attempt.as_bytes() {
        // Into a string nothing fails.
        let _written = write!(statement, "{byte:02x}");
    }
    statement.push_str("'; ");
    statement.push_str(KEEP_SESSION);
    statement.push_str(DURABLE);
    statement
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        backend::{Durability, Session},
        model::{record_id::RecordId, retention::Retention, scope::ScopeId},
    };

    /// Claims of two releases meet in these numbers while a deployment rolls.
    #[test]
    fn b20_the_lock_numbers_are_pinned() {
        let fingerprint = Fingerprint::of_message(b"payload");
        let request = ClaimRequest {
            id: RecordId::of_key(ScopeId::new("ada").digest().expect("a scope"), b"order-1"),
            fingerprint,
            bytes: fingerprint,
            operation: "pay",
            retention: Retention::DAY,
            durability: Durability::OfSession,
            session: Session::AsLeft,
        };
        let Locks { key, requests } = Locks::of(&request);
        assert_eq!((key, requests), (6_695_617_813_952_327_530, [1_258_667_852_330_346_710; 2]));
    }
}

//! The types as which a handler may take its transaction, and the checks that an expansion makes of them.
//! Their messages are what a user reads who takes another type, or whose state lacks an `Idempotency`.

use std::{convert::Infallible, future::pending, marker::PhantomData};

use axum::extract::{FromRef, FromRequestParts};
use http::request::Parts;
use sqlx::Transaction;

use crate::{Idempotency, backend::Backend};

/// The database of a handler's connection type.
#[diagnostic::on_unimplemented(
    message = "`&mut {Self}` is not a transaction that idem can open",
    label = "not a supported connection",
    note = "take `&mut PgConnection`, `&mut SqliteConnection` or `&mut Transaction<'_, Db>` of sqlx",
    note = "and enable the feature `postgres` or `sqlite` of idem-runtime"
)]
pub trait OnDatabase {
    /// The database.
    type Db: Backend;
}

#[diagnostic::do_not_recommend]
impl<Db: Backend> OnDatabase for Transaction<'_, Db> {
    type Db = Db;
}

/// A type as which a claim lends its transaction.
pub trait Lent<Db: Backend> {
    /// Lends it.
    fn lend<'t>(transaction: &'t mut Transaction<'static, Db>) -> &'t mut Self;
}

#[diagnostic::do_not_recommend]
impl<Db: Backend> Lent<Db> for Transaction<'static, Db> {
    fn lend(transaction: &mut Self) -> &mut Self {
        transaction
    }
}

/// The connection types of a database, which a transaction dereferences to.
macro_rules! connections {
    ($($feature:literal: $Connection:ident, $Db:ident;)*) => {$(
        #[cfg(feature = $feature)]
        impl OnDatabase for sqlx::$Connection {
            type Db = sqlx::$Db;
        }

        #[cfg(feature = $feature)]
        impl Lent<sqlx::$Db> for sqlx::$Connection {
            fn lend<'t>(transaction: &'t mut Transaction<'static, sqlx::$Db>) -> &'t mut Self {
                transaction
            }
        }
    )*};
}

connections! {
    "postgres": PgConnection, Postgres;
    "sqlite": SqliteConnection, Sqlite;
}

/// An extractor for `debug_handler` alone: it makes a state without `Idempotency` an error where the state stands.
pub struct Idem<Db: Backend>(PhantomData<fn() -> Db>);

impl<S: HoldsIdempotency<Db> + Send + Sync, Db: Backend> FromRequestParts<S> for Idem<Db> {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(PhantomData))
    }
}

/// A state from which axum's `FromRef` gives an [`Idempotency`].
#[diagnostic::on_unimplemented(
    message = "the state `{Self}` holds no `Idempotency<{Db}>`",
    label = "no `Idempotency<{Db}>` in this state",
    note = "store an `Idempotency` in the state, and derive or implement `FromRef` for it",
    note = "where this is only a part of the state, say which is the whole: `#[debug_handler(state = App)]`"
)]
pub trait HoldsIdempotency<Db: Backend> {}

#[diagnostic::do_not_recommend]
impl<S, Db: Backend> HoldsIdempotency<Db> for S where Idempotency<Db>: FromRef<S> {}

/// The body of a function that is only checked, never called.
pub async fn never<T>() -> T {
    pending().await
}

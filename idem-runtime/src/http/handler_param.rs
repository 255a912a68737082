//! The types as which a handler may take its transaction or its attempt, and the checks that an expansion makes of them.
//! Their messages are what a user reads who takes another type, or whose state lacks an `Idempotency`.

use std::future::pending;

use axum::extract::FromRef;
use sqlx::Transaction;

use crate::{
    app::Idempotency,
    backend::Backend,
    engine::attempt::Attempt,
    http::{database::Database, effects::Effects, external::External},
};

/// The database of a handler's connection type.
#[diagnostic::on_unimplemented(
    message = "`&mut {Self}` is not a transaction that idem can open",
    label = "not a supported connection",
    note = "take `&mut PgConnection`, `&mut SqliteConnection` or `&mut Transaction<'_, Db>` of sqlx",
    note = "and enable the feature `postgres` or `sqlite` of idem-runtime",
    note = "a handler with `effects = external` takes `&mut Attempt<Db>` of idem_runtime"
)]
pub trait OnDatabase {
    /// Effects in the database of this connection.
    type Effects: Effects;
}

#[diagnostic::do_not_recommend]
impl<Db: Backend> OnDatabase for Transaction<'_, Db> {
    type Effects = Database<Db>;
}

/// The database of the attempt that a handler with external effects takes.
#[diagnostic::on_unimplemented(
    message = "`&mut {Self}` is not the attempt of a handler with external effects",
    label = "not an attempt",
    note = "with `effects = external` take `&mut Attempt<Postgres>` or `&mut Attempt<Sqlite>` of idem_runtime: an open transaction would not contain the calls to other systems",
    note = "what belongs into the database goes through `attempt.transaction()`"
)]
pub trait OnAttempt {
    /// Effects elsewhere, with the records in this database.
    type Effects: Effects;
}

#[diagnostic::do_not_recommend]
impl<Db: Backend> OnAttempt for Attempt<Db> {
    type Effects = External<Db>;
}

/// The `Idempotency` of a consumer that takes this connection.
pub type IdempotencyOn<C> = Idempotency<<<C as OnDatabase>::Effects as Effects>::Db>;

/// The connection types of a database, which a transaction dereferences to.
macro_rules! connections {
    ($($feature:literal: $Connection:ident, $Db:ident;)*) => {$(
        #[cfg(feature = $feature)]
        impl OnDatabase for sqlx::$Connection {
            type Effects = Database<sqlx::$Db>;
        }
    )*};
}

connections! {
    "postgres": PgConnection, Postgres;
    "sqlite": SqliteConnection, Sqlite;
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

/// Named where the state is known, so that a state without `Idempotency` is an error where it is written.
pub fn holds<S: HoldsIdempotency<E::Db>, E: Effects>() {}

/// The body of a function that is only checked, never called.
pub async fn never<T>() -> T {
    pending().await
}

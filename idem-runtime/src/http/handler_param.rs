//! The types that a handler may take as its transaction or its attempt, and the checks of them in the expansion.
//! rustc shows their messages if the type is another one, or if the state has no `Idempotency`.

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
    message = "expected a transaction that idem can open, found `&mut {Self}`",
    label = "not a supported connection",
    note = "write sqlx's `&mut PgConnection`, `&mut SqliteConnection` or `&mut Transaction<'_, Db>`",
    note = "and enable the feature `postgres` or `sqlite` of idem-runtime",
    note = "with `effects = external`, write `&mut Attempt<Postgres>` or `&mut Attempt<Sqlite>`"
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
    message = "expected the attempt of a handler with external effects, found `&mut {Self}`",
    label = "not an attempt",
    note = "write idem_runtime's `&mut Attempt<Postgres>` or `&mut Attempt<Sqlite>`: a transaction cannot roll back calls to other systems",
    note = "use `attempt.transaction()` for database writes"
)]
pub trait OnAttempt {
    /// Effects in other systems, with the records in this database.
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

/// A state that implements axum's `FromRef` for an [`Idempotency`].
#[diagnostic::on_unimplemented(
    message = "expected a state with an `Idempotency<{Db}>`, found `{Self}`",
    label = "no `Idempotency<{Db}>` in this state",
    note = "add an `Idempotency` to the state, and derive or implement `FromRef` for it",
    note = "if this is only a part of the state, name the state's type: `#[debug_handler(state = App)]`"
)]
pub trait HoldsIdempotency<Db: Backend> {}

#[diagnostic::do_not_recommend]
impl<S, Db: Backend> HoldsIdempotency<Db> for S where Idempotency<Db>: FromRef<S> {}

/// The expansion names it where it knows the state, so that a state without `Idempotency` is an error there.
pub fn holds<S: HoldsIdempotency<E::Db>, E: Effects>() {}

/// The body of a function that is only checked, never called.
pub async fn never<T>() -> T {
    pending().await
}

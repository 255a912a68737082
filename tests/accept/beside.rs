//! What stands beside a handler is in nobody's way: two handlers of one name under `cfg` or in two bodies, a module of that
//! name, glob imports, a private type in a public signature, a fingerprint function that only its scope knows.

use axum::routing::post;

use super::common::Routes;

/// A module and its handler have one name, and the handler is used beside the module.
mod pay {
    use axum::{http::StatusCode, routing::post};
    use idem_runtime::idempotent;
    use sqlx::PgConnection;

    use super::super::common::{Account, Routes};

    /// Less visible than the handler that returns it.
    struct Receipt;

    impl axum::response::IntoResponse for Receipt {
        fn into_response(self) -> axum::response::Response {
            StatusCode::CREATED.into_response()
        }
    }

    #[idempotent(scope = account)]
    #[expect(private_interfaces, reason = "as without the attribute")]
    pub(super) async fn receipt(tx: &mut PgConnection, account: Account) -> Receipt {
        let _ = (tx, account);
        Receipt
    }

    pub(super) fn receipts() -> Routes {
        Routes::new().route("/receipt", post(receipt))
    }

    #[idempotent(scope = account)]
    pub(in super::super) async fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
        let _ = (tx, account);
        StatusCode::OK
    }

    #[idempotent(scope = account)]
    #[cfg(test)]
    pub(super) async fn refund(tx: &mut PgConnection, account: Account) -> StatusCode {
        let _ = (tx, account);
        StatusCode::OK
    }

    #[idempotent(scope = account, mismatch = 400)]
    #[cfg(not(test))]
    pub(super) async fn refund(tx: &mut PgConnection, account: Account) -> StatusCode {
        let _ = (tx, account);
        StatusCode::OK
    }
}

mod transfer {
    use axum::http::StatusCode;
    use idem_runtime::idempotent;
    use sqlx::PgConnection;

    use super::super::common::Account;

    #[idempotent(scope = account, mismatch = 400)]
    pub(super) async fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
        let _ = (tx, account);
        StatusCode::OK
    }

    #[idempotent(scope = account)]
    pub(super) async fn transfer(tx: &mut PgConnection, account: Account) -> StatusCode {
        let _ = (tx, account);
        StatusCode::OK
    }
}

use pay::pay;

/// Each module has a `pay`, and nobody asks which is meant.
fn globs() -> Routes {
    use pay::*;
    use transfer::*;

    Routes::new().route("/refund", post(refund)).route("/transfer", post(transfer))
}

/// Two bodies, each with the same names.
macro_rules! bodies {
    ($($function:ident)*) => {
        $(
            fn $function() -> Routes {
                use axum::{body::Bytes, http::{StatusCode, request::Parts}};
                use idem_runtime::idempotent;
                use sqlx::PgConnection;

                use super::common::Account;

                fn by_length(_: &Parts, body: &Bytes) -> Vec<u8> {
                    body.len().to_be_bytes().to_vec()
                }

                #[idempotent(scope = account, fingerprint = by_length)]
                async fn local(tx: &mut PgConnection, account: Account) -> StatusCode {
                    let _ = (tx, account);
                    StatusCode::OK
                }

                {
                    #[idempotent(scope = account)]
                    async fn local(tx: &mut PgConnection, account: Account) -> StatusCode {
                        let _ = (tx, account);
                        StatusCode::OK
                    }

                    drop(Routes::new().route("/", post(local)));
                }
                Routes::new().route("/", post(local))
            }
        )*
    };
}

bodies! {
    one
    another
}

#[test]
fn they_are_all_routed() {
    let routes = Routes::new()
        .route("/pay", post(pay))
        .merge(pay::receipts())
        .merge(globs())
        .nest("/1", one())
        .nest("/2", another());
    assert!(routes.has_routes());
}

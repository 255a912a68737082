//! The crate under another name, and behind a module that re-exports it.
//! `crate = path` is the only thing that changes.

use axum::{http::StatusCode, routing::post};
use sqlx::PgConnection;

use super::common::{Account, Routes};

/// A company's own prelude.
pub(crate) mod prelude {
    pub(crate) mod idem {
        pub(crate) use idem_runtime::*;
        // A glob does not carry what is hidden by name only in documentation: it is public all the same.
        pub(crate) use idem_runtime::__private;
    }
}

#[prelude::idem::idempotent(scope = account, crate = crate::accept::renamed::prelude::idem)]
async fn reexported(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

#[company_idem::idempotent(scope = account, crate = ::company_idem)]
async fn renamed(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

/// What a company's own macro writes.
macro_rules! handler {
    ($name:ident) => {
        #[prelude::idem::idempotent(scope = account, crate = $crate::accept::renamed::prelude::idem)]
        async fn $name(tx: &mut PgConnection, account: Account) -> StatusCode {
            let _ = (tx, account);
            StatusCode::OK
        }
    };
}

handler!(by_macro);

#[test]
fn all_are_handlers() {
    let routes = Routes::new().route("/1", post(reexported)).route("/2", post(renamed)).route("/3", post(by_macro));
    assert!(routes.has_routes());
}

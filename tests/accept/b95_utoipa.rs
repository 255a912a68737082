//! B95: `utoipa::path` above and below, by module path and by re-export, in any visibility.
//! The transaction must be no parameter and no body of the document.

use axum::routing::post;
use utoipa::OpenApi;

use super::common::Routes;

mod payments {
    use axum::Json;
    use idem_runtime::idempotent;
    use sqlx::PgConnection;

    use super::super::common::{Account, Payment};

    /// Pays.
    #[utoipa::path(post, path = "/above", responses((status = 201, description = "paid")))]
    #[idempotent(scope = account)]
    pub(crate) async fn above(tx: &mut PgConnection, account: Account, Json(body): Json<Payment>) -> String {
        let _ = tx;
        (account.id + body.amount).to_string()
    }

    /// Pays back.
    #[idempotent(scope = account)]
    #[utoipa::path(post, path = "/below", responses((status = 201, description = "refunded")))]
    pub(crate) async fn below(tx: &mut PgConnection, account: Account, Json(body): Json<Payment>) -> String {
        let _ = tx;
        (account.id - body.amount).to_string()
    }
}

mod reexport {
    pub(crate) use super::payments::{__path_below, below};
}

#[derive(OpenApi)]
#[openapi(paths(payments::above, reexport::below))]
struct Document;

#[test]
fn both_are_in_the_document() {
    let routes = Routes::new().route("/above", post(payments::above)).route("/below", post(reexport::below));
    assert!(routes.has_routes());

    let document = Document::openapi();
    for (path, summary) in [("/above", "Pays."), ("/below", "Pays back.")] {
        let operation = document.paths.paths[path].post.as_ref().expect(path);
        assert_eq!(operation.summary.as_deref(), Some(summary));
        assert!(operation.parameters.is_none(), "{path}: the transaction is no parameter");
        assert!(operation.request_body.is_none(), "{path}: the transaction is no body");
    }
}

//! The network's HTTP interface. A requested charge goes through, even if the client has gone.
//! hyper serves it directly: axum always responds, and a failing network must be able not to.

use std::{io, sync::Arc, time::Duration};

use axum::{
    Extension, Json, Router,
    body::{Body, Bytes},
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures_util::{StreamExt as _, stream};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt as _;

use super::{
    Keys, Network,
    control::{self, Command, Conduct},
    ledger::{Charge, NewCharge},
};

/// Marks a response that must not be sent.
#[derive(Clone, Copy)]
struct Dropped;

/// Accepts connections forever.
pub(super) async fn serve(listener: TcpListener, network: Arc<Network>) {
    let router = Router::new()
        .route("/charges", post(charge).get(find))
        .route("/charges/by-key/{key}", get(find_by_key))
        .route("/ledger", get(ledger))
        .route("/control", post(command).get(state))
        .route("/release", post(release))
        .with_state(network);
    loop {
        match listener.accept().await {
            Ok((connection, _)) => drop(tokio::spawn(respond(connection, router.clone()))),
            Err(error) => tracing::warn!(%error, "cannot accept a connection"),
        }
    }
}

async fn respond(connection: TcpStream, router: Router) {
    let service = service_fn(|request| {
        let router = router.clone();
        async move {
            let Ok(response) = router.oneshot(request).await;
            // hyper closes the connection after an error.
            if response.extensions().get::<Dropped>().is_some() {
                return Err(io::Error::other("the command is to drop the response"));
            }
            Ok(response)
        }
    });
    if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(connection), service).await {
        tracing::info!(%error, "a connection ended");
    }
}

enum Failure {
    Ledger(sqlx::Error),
    Task,
    Simulated,
    KeyReuse,
    NoSuchCharge,
    MalformedKey,
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Ledger(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        if let Self::Ledger(error) = &self {
            tracing::error!(%error, "the ledger failed");
        }
        let (status, code) = match self {
            Self::Ledger(_) | Self::Task => (StatusCode::INTERNAL_SERVER_ERROR, "ledger"),
            Self::Simulated => (StatusCode::INTERNAL_SERVER_ERROR, "simulated-failure"),
            Self::KeyReuse => (StatusCode::UNPROCESSABLE_ENTITY, "key-reuse"),
            Self::NoSuchCharge => (StatusCode::NOT_FOUND, "no-such-charge"),
            Self::MalformedKey => (StatusCode::BAD_REQUEST, "key-malformed"),
        };
        (status, Json(json!({ "error": { "code": code } }))).into_response()
    }
}

async fn charge(
    State(network): State<Arc<Network>>,
    headers: HeaderMap,
    Json(new): Json<NewCharge>,
) -> Result<Response, Failure> {
    let key = match headers.get("idempotency-key") {
        Some(key) if network.keys == Keys::Honoured => {
            Some(key.to_str().map_err(|_| Failure::MalformedKey)?.to_owned())
        }
        _ => None,
    };
    let (conduct, milliseconds) = network.control.next();
    if conduct == Conduct::Fail {
        return Err(Failure::Simulated);
    }
    let charging = charge_in_ledger(Arc::clone(&network), new.clone(), key, conduct, milliseconds);
    // If the client goes, hyper drops this handler. The task continues.
    let charge = tokio::spawn(charging).await.map_err(|_| Failure::Task)??;
    if conduct == Conduct::HoldAnswer {
        network.control.hold().await;
    }
    if !charge.is(&new) {
        return Err(Failure::KeyReuse);
    }
    Ok(match conduct {
        Conduct::DropAnswer => Extension(Dropped).into_response(),
        Conduct::CutAnswer => cut(&charge),
        _ => charge.into_response(),
    })
}

async fn charge_in_ledger(
    network: Arc<Network>,
    new: NewCharge,
    key: Option<String>,
    conduct: Conduct,
    milliseconds: u64,
) -> Result<Charge, sqlx::Error> {
    match conduct {
        Conduct::Delay => tokio::time::sleep(Duration::from_millis(milliseconds)).await,
        Conduct::HoldRequest => network.control.hold().await,
        _ => {}
    }
    let declined = conduct == Conduct::Refuse || new.source == "tok_declined";
    network.ledger.charge(&new, key.as_deref(), if declined { "declined" } else { "succeeded" }).await
}

impl IntoResponse for Charge {
    fn into_response(self) -> Response {
        let status = if self.status == "declined" { StatusCode::PAYMENT_REQUIRED } else { StatusCode::CREATED };
        (status, Json(self)).into_response()
    }
}

/// Announces the complete response, and sends half of it.
fn cut(charge: &Charge) -> Response {
    let complete = json!(charge).to_string();
    let half = Bytes::copy_from_slice(&complete.as_bytes()[..complete.len() / 2]);
    let broken = stream::once(async {
        // hyper sends the first half before it polls again.
        tokio::task::yield_now().await;
        Err(io::Error::other("the command is to cut the response"))
    });
    let body = Body::from_stream(stream::iter([Ok(half)]).chain(broken));
    (StatusCode::CREATED, [(header::CONTENT_LENGTH, complete.len().to_string())], body).into_response()
}

async fn find_by_key(State(network): State<Arc<Network>>, Path(key): Path<String>) -> Result<Json<Charge>, Failure> {
    let found = network.ledger.by_key(&key).await?;
    network.control.looked_up();
    found.map(Json).ok_or(Failure::NoSuchCharge)
}

#[derive(Deserialize)]
struct Search {
    reference: String,
}

async fn find(
    State(network): State<Arc<Network>>,
    Query(Search { reference }): Query<Search>,
) -> Result<Json<Value>, Failure> {
    let found = network.ledger.by_reference(&reference).await?;
    network.control.looked_up();
    Ok(list(&found))
}

async fn ledger(State(network): State<Arc<Network>>) -> Result<Json<Value>, Failure> {
    Ok(list(&network.ledger.all().await?))
}

fn list(charges: &[Charge]) -> Json<Value> {
    Json(json!({ "count": charges.len(), "data": charges }))
}

async fn command(State(network): State<Arc<Network>>, Json(command): Json<Command>) -> StatusCode {
    network.control.command(command);
    StatusCode::NO_CONTENT
}

async fn release(State(network): State<Arc<Network>>) -> StatusCode {
    network.control.release();
    StatusCode::NO_CONTENT
}

async fn state(State(network): State<Arc<Network>>) -> Json<control::State> {
    Json(network.control.state())
}

//! The extractor that verifies signatures. A handler gets only events of its sender.
//! The reference crate verifies Standard Webhooks, and `stripe_signature.rs` verifies Stripe.

use std::{marker::PhantomData, sync::Arc, time::SystemTime};

use axum::{
    extract::{FromRef, FromRequest, Request},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use idem_runtime::{Scope, ScopeId};
use serde_json::Value;
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_TIMESTAMP, Webhook, WebhookError};

use crate::stripe_signature;

/// The secrets that the receiver shares with the senders.
#[derive(Clone)]
pub(crate) struct Secrets {
    pub(crate) standard: Arc<Webhook>,
    pub(crate) stripe: Arc<str>,
}

impl Secrets {
    /// # Errors
    /// The secret for Standard Webhooks is not base64.
    pub(crate) fn new(standard: &str, stripe: &str) -> Result<Self, WebhookError> {
        Ok(Self { standard: Arc::new(Webhook::new(standard)?), stripe: stripe.into() })
    }
}

/// An event with a valid signature.
pub(crate) struct Verified<By> {
    pub(crate) provider: Provider,
    pub(crate) id: Option<String>,
    /// The credit, if the event has one.
    pub(crate) credit: Option<Credit>,
    _by: PhantomData<By>,
}

/// An amount for an account.
pub(crate) struct Credit {
    pub(crate) account: String,
    pub(crate) amount: i64,
}

/// The sender of the events. An id is unique within one sender only.
pub(crate) struct Provider(&'static str);

impl Scope for Provider {
    fn scope_id(&self) -> ScopeId {
        ScopeId::new(self.0)
    }
}

/// A signature format.
pub(crate) trait Scheme {
    const PROVIDER: Provider;

    fn verify(secrets: &Secrets, headers: &HeaderMap, body: &[u8]) -> Result<(), NotVerified>;

    fn id(headers: &HeaderMap, event: &Value) -> Option<String>;

    fn credit(event: &Value) -> Option<Credit>;
}

/// The signature is missing, invalid, or too old.
pub(crate) struct NotVerified;

pub(crate) struct Standard;

impl Scheme for Standard {
    const PROVIDER: Provider = Provider("standard");

    fn verify(secrets: &Secrets, headers: &HeaderMap, body: &[u8]) -> Result<(), NotVerified> {
        // The crate subtracts it from the current time. An arbitrary number would overflow.
        let sent = headers.get(HEADER_WEBHOOK_TIMESTAMP).and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
        sent.ok_or(NotVerified)?;
        secrets.standard.verify(body, headers).map_err(|_| NotVerified)
    }

    /// The signature covers the id.
    fn id(headers: &HeaderMap, _: &Value) -> Option<String> {
        headers.get(HEADER_WEBHOOK_ID)?.to_str().ok().map(str::to_owned)
    }

    fn credit(event: &Value) -> Option<Credit> {
        let data = (event["type"] == "credit.granted").then(|| &event["data"])?;
        Some(Credit { account: data["account"].as_str()?.to_owned(), amount: data["amount"].as_i64()? })
    }
}

pub(crate) struct Stripe;

impl Scheme for Stripe {
    const PROVIDER: Provider = Provider("stripe");

    fn verify(secrets: &Secrets, headers: &HeaderMap, body: &[u8]) -> Result<(), NotVerified> {
        let signature = headers.get(stripe_signature::HEADER).and_then(|value| value.to_str().ok());
        let valid = signature.is_some_and(|signature| {
            stripe_signature::is_valid(secrets.stripe.as_bytes(), signature, body, SystemTime::now())
        });
        if valid { Ok(()) } else { Err(NotVerified) }
    }

    fn id(_: &HeaderMap, event: &Value) -> Option<String> {
        event["id"].as_str().map(str::to_owned)
    }

    fn credit(event: &Value) -> Option<Credit> {
        let intent = (event["type"] == "payment_intent.succeeded").then(|| &event["data"]["object"])?;
        let account = intent["metadata"]["account"].as_str()?.to_owned();
        Some(Credit { account, amount: intent["amount_received"].as_i64()? })
    }
}

impl<By: Scheme, S: Send + Sync> FromRequest<S> for Verified<By>
where
    Secrets: FromRef<S>,
{
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let headers = request.headers().clone();
        // The signature covers these bytes, so verify them before parsing.
        let body = axum::body::Bytes::from_request(request, state).await.map_err(IntoResponse::into_response)?;
        By::verify(&Secrets::from_ref(state), &headers, &body).map_err(IntoResponse::into_response)?;
        let event = serde_json::from_slice(&body)
            .map_err(|_| (StatusCode::BAD_REQUEST, "the event is not JSON").into_response())?;
        Ok(Self { provider: By::PROVIDER, id: By::id(&headers, &event), credit: By::credit(&event), _by: PhantomData })
    }
}

impl IntoResponse for NotVerified {
    fn into_response(self) -> Response {
        (StatusCode::UNAUTHORIZED, "the signature is missing, invalid or too old").into_response()
    }
}

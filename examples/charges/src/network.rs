//! The card network, seen from here: charge with an idempotency key of our own, and ask what became of a charge.
//! Every failure is one of two kinds: nothing was sent, or it is not clear what happened.

use std::{error::Error, sync::Arc, time::Duration};

use reqwest::{Client, RequestBuilder, StatusCode};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;
use tokio::time::sleep;

use crate::extract::NewCharge;

/// How often a charge whose answer did not come is sent again, with the same key, before recovery has to find out.
const MOST_TRIES: u32 = 3;

const PAUSE: Duration = Duration::from_millis(100);

/// A charge as the network has it.
#[derive(Deserialize)]
pub(crate) struct Charged {
    pub(crate) id: String,
    status: String,
    amount: i64,
    currency: String,
    /// Whose it is: sent along, so that a charge that lost its attempt can be told to whom it belongs.
    pub(crate) customer: String,
}

impl Charged {
    pub(crate) fn declined(&self) -> bool {
        self.status == "declined"
    }

    /// Whether it is the charge that was asked for.
    pub(crate) fn is(&self, new: &NewCharge) -> bool {
        self.amount == i64::from(new.amount.get()) && self.currency == new.currency.as_str()
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum NetworkError {
    #[error("the card network cannot be reached, and nothing was charged")]
    NothingSent(#[source] reqwest::Error),
    #[error("the card network did not answer, and whether the card was charged is not known")]
    Unclear(#[source] Box<dyn Error + Send + Sync>),
}

/// Handlers take this from the state. It holds no connection to the database.
#[derive(Clone)]
pub(crate) struct Network {
    http: Client,
    address: Arc<str>,
}

impl Network {
    pub(crate) fn new(address: &str, timeout: Duration) -> Result<Self, reqwest::Error> {
        let http = Client::builder().timeout(timeout).no_proxy().build()?;
        Ok(Self { http, address: address.trim_end_matches('/').into() })
    }

    /// Charges once, however often it is sent: the network answers the same key with the same charge.
    pub(crate) async fn charge(&self, key: &str, customer: &str, new: &NewCharge) -> Result<Charged, NetworkError> {
        let post = || self.post(customer, None, new).header("idempotency-key", key);
        let mut failed = match charged(post()).await {
            // Only the first try can say that nothing was charged; after it, one may have arrived.
            Err(error) => error,
            Ok(charge) => return Ok(charge),
        };
        for _ in 1..MOST_TRIES {
            if matches!(failed, NetworkError::NothingSent(_)) {
                return Err(failed);
            }
            sleep(PAUSE).await;
            failed = match charged(post()).await {
                Err(NetworkError::NothingSent(error)) => NetworkError::Unclear(error.into()),
                Err(error) => error,
                Ok(charge) => return Ok(charge),
            };
        }
        Err(failed)
    }

    /// Charges at a network that honours no keys: each call is a charge. The reference is only written down there.
    pub(crate) async fn charge_without_key(
        &self,
        reference: &str,
        customer: &str,
        new: &NewCharge,
    ) -> Result<Charged, NetworkError> {
        charged(self.post(customer, Some(reference), new)).await
    }

    /// The charge that a key made.
    pub(crate) async fn find_by_key(&self, key: &str) -> Result<Option<Charged>, NetworkError> {
        let (status, found) = answered(self.http.get(format!("{}/charges/by-key/{key}", self.address))).await?;
        match status {
            StatusCode::OK => Ok(Some(read(&found)?)),
            StatusCode::NOT_FOUND => Ok(None),
            other => Err(unexpected(other)),
        }
    }

    /// The first charge with a reference of ours.
    pub(crate) async fn find_by_reference(&self, reference: &str) -> Result<Option<Charged>, NetworkError> {
        #[derive(Deserialize)]
        struct Found {
            data: Vec<Charged>,
        }

        let (status, found) =
            answered(self.http.get(format!("{}/charges?reference={reference}", self.address))).await?;
        match status {
            StatusCode::OK => Ok(read::<Found>(&found)?.data.into_iter().next()),
            other => Err(unexpected(other)),
        }
    }

    fn post(&self, customer: &str, reference: Option<&str>, new: &NewCharge) -> RequestBuilder {
        let body = json!({
            "amount": new.amount, "currency": new.currency, "source": new.source,
            "customer": customer, "reference": reference,
        });
        self.http.post(format!("{}/charges", self.address)).json(&body)
    }
}

/// A declined card is an answer too.
async fn charged(request: RequestBuilder) -> Result<Charged, NetworkError> {
    match answered(request).await? {
        (StatusCode::CREATED | StatusCode::PAYMENT_REQUIRED, charge) => read(&charge),
        (other, _) => Err(unexpected(other)),
    }
}

/// A whole answer. A connection that broke, or a timeout, says nothing about what the network did.
async fn answered(request: RequestBuilder) -> Result<(StatusCode, Vec<u8>), NetworkError> {
    let response = match request.send().await {
        Ok(response) => response,
        Err(error) if error.is_connect() => return Err(NetworkError::NothingSent(error)),
        Err(error) => return Err(NetworkError::Unclear(error.into())),
    };
    let status = response.status();
    let body = response.bytes().await.map_err(|error| NetworkError::Unclear(error.into()))?;
    Ok((status, body.to_vec()))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, NetworkError> {
    serde_json::from_slice(body).map_err(|error| NetworkError::Unclear(error.into()))
}

fn unexpected(status: StatusCode) -> NetworkError {
    NetworkError::Unclear(format!("the card network answered {status}").into())
}

//! The client of the card network: it charges under our idempotency key, and looks charges up.
//! There are two kinds of failure: nothing was sent, or the result is unclear.

use std::{error::Error, sync::Arc, time::Duration};

use reqwest::{Client, RequestBuilder, StatusCode};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;
use tokio::time::sleep;

use crate::request::NewCharge;

/// How often a charge is sent, with the same key, while the result is unclear. After that the recovery looks it up.
const MAX_TRIES: u32 = 3;

const PAUSE: Duration = Duration::from_millis(100);

/// A charge as the network has it.
#[derive(Deserialize)]
pub(crate) struct Charged {
    pub(crate) id: String,
    status: String,
    amount: i64,
    currency: String,
    /// The account. The network stores it, so a charge without its attempt still names its account.
    pub(crate) customer: String,
}

impl Charged {
    pub(crate) fn declined(&self) -> bool {
        self.status == "declined"
    }

    /// Whether it is the requested charge.
    pub(crate) fn is(&self, new: &NewCharge) -> bool {
        self.amount == i64::from(new.amount.get()) && self.currency == new.currency.as_str()
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum NetworkError {
    #[error("the card network is unreachable, and nothing was charged")]
    NothingSent(#[source] reqwest::Error),
    #[error("the card network did not respond, and the card may or may not have been charged")]
    Unclear(#[source] Box<dyn Error + Send + Sync>),
}

/// Handlers take it from the state. It has no connection to the database.
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

    /// Charges once, even if it is sent more than once: the network makes one charge for each key.
    pub(crate) async fn charge(&self, key: &str, customer: &str, new: &NewCharge) -> Result<Charged, NetworkError> {
        let post = || self.post(customer, None, new).header("idempotency-key", key);
        let mut failed = match charged(post()).await {
            // Only the first try can know that nothing was charged. A later try does not know about the one before.
            Err(error) => error,
            Ok(charge) => return Ok(charge),
        };
        for _ in 1..MAX_TRIES {
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

    /// Charges at a network without keys: each call is a charge. The network only stores the reference.
    pub(crate) async fn charge_without_key(
        &self,
        reference: &str,
        customer: &str,
        new: &NewCharge,
    ) -> Result<Charged, NetworkError> {
        charged(self.post(customer, Some(reference), new)).await
    }

    /// The charge under a key.
    pub(crate) async fn find_by_key(&self, key: &str) -> Result<Option<Charged>, NetworkError> {
        let (status, found) = response(self.http.get(format!("{}/charges/by-key/{key}", self.address))).await?;
        match status {
            StatusCode::OK => Ok(Some(read(&found)?)),
            StatusCode::NOT_FOUND => Ok(None),
            other => Err(unexpected(other)),
        }
    }

    /// The first charge with a reference.
    pub(crate) async fn find_by_reference(&self, reference: &str) -> Result<Option<Charged>, NetworkError> {
        #[derive(Deserialize)]
        struct Found {
            data: Vec<Charged>,
        }

        let (status, found) =
            response(self.http.get(format!("{}/charges?reference={reference}", self.address))).await?;
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

/// A declined charge is a result, not an error.
async fn charged(request: RequestBuilder) -> Result<Charged, NetworkError> {
    match response(request).await? {
        (StatusCode::CREATED | StatusCode::PAYMENT_REQUIRED, charge) => read(&charge),
        (other, _) => Err(unexpected(other)),
    }
}

/// A complete response. A broken connection or a timeout does not say what the network did.
async fn response(request: RequestBuilder) -> Result<(StatusCode, Vec<u8>), NetworkError> {
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
    NetworkError::Unclear(format!("the card network responded with {status}").into())
}

//! A [`reqwest`] client whose calls can be retried safely: each call takes effect once.
//! It gives each call one `Idempotency-Key`, sends that key on every retry, and can resume the call after a crash.
//!
//! ```
//! use std::time::Duration;
//! use idem_client::{Builder, Key, reqwest};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! # let url = format!("http://{}/payments", listener.local_addr()?);
//! # tokio::spawn(async move {
//! #     use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//! #     for status in ["503 Service Unavailable", "201 Created"] {
//! #         let (mut connection, _) = listener.accept().await?;
//! #         let mut bytes = Vec::new();
//! #         while !bytes.ends_with(b"}") {
//! #             connection.read_buf(&mut bytes).await?;
//! #         }
//! #         let response = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
//! #         connection.write_all(response.as_bytes()).await?;
//! #     }
//! #     std::io::Result::Ok(())
//! # });
//! let client = Builder::new().budget(Duration::from_secs(60)).build(reqwest::Client::builder())?;
//!
//! let response = client
//!     .post(url)
//!     .with_extension(Key::new("order-17")?) // optional: without it the call gets a random key
//!     .header("content-type", "application/json")
//!     .body(r#"{"amount":1999}"#)
//!     .send()
//!     .await?; // the first response was a 503, and the client retried
//! assert_eq!(response.status(), 201);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! For `https`, add `reqwest` to your own `Cargo.toml` with the TLS feature you want, such as `rustls`.
//!
//! # One call
//!
//! One `send` (or `execute`) is one call. The call gets its key before the first attempt: the value of its
//! `Idempotency-Key` header, the [`Key`] (or `Option<Key>`) in its extensions, or a random UUID. All attempts of the call send the same key
//! and the same bytes. A body that is a stream (or `multipart`) is refused before anything is sent. The response holds
//! the [`Key`] in its extensions.
//!
//! The next call gets another key, also on a clone of the client. Do not repeat `send` yourself with a random key: that is
//! a second call and can take effect a second time.
//!
//! Only POST and PATCH requests get a key and retries ([`Builder::methods`]). Other requests are sent once, unchanged.
//!
//! | result of an attempt | what the client does |
//! |---|---|
//! | a network failure, an incomplete response (up to [`Builder::read_ahead`]), a [timeout](Builder::attempt_timeout) | retries |
//! | any response with `Idempotent-Replayed: true` | returns it: the server has stored this response, and a retry cannot change it |
//! | `5xx` | retries |
//! | `409` with code `in-progress` or a `Retry-After` | retries: an earlier attempt is in flight |
//! | `429` with a `Retry-After` | retries, or gives up if the limit is shorter than the `Retry-After` |
//! | `2xx`, any other `4xx` | returns it |
//! | `307`, `308` | follows it with key and body, to the same origin or an [allowed](Builder::allow_origin) one; else [`Error::RedirectRefused`] |
//! | `303`; after a POST also `301`, `302` | follows it as a GET without key and body |
//! | `301`, `302` after a PATCH | [`Error::RedirectRefused`]: the request would lose its key |
//!
//! [`Builder::retry_on`] replaces the rule for `4xx` and `5xx` responses.
//!
//! Before a retry the client waits for the `Retry-After` of the response, up to a [limit](Builder::max_retry_after). It
//! adds a random time below an exponentially growing bound ([`Builder::backoff`]). If the wait exceeds the rest of the
//! [budget](Builder::budget), the error is [`Error::GaveUp`]. It contains the last response: its status, its headers and
//! the first 64 KiB of its body.
//!
//! A redirect to another origin drops `Authorization` and cookies, as in `reqwest`. The redirects of `reqwest` itself are
//! disabled in this client, because they would send the key to any origin.
//!
//! # After a crash
//!
//! A [`Journal`] stores each call before its first attempt. After a restart, [`Call::resume`] sends the call again under
//! its key. Without a journal, [`Error::key`] returns the key of a call that the client gave up.
//!
//! ```
//! # use idem_client::{BoxError, Call, reqwest_middleware::ClientWithMiddleware};
//! async fn resume_all(stored: Vec<Vec<u8>>, client: &ClientWithMiddleware, token: &str) -> Result<(), BoxError> {
//!     for bytes in stored {
//!         let response = Call::decode(&bytes)?.resume(client).bearer_auth(token).send().await?;
//!         println!("{} {}", response.status(), response.text().await?);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # The stored encoding
//!
//! [`Call::encode`] writes one line of JSON, a line feed (`\n`), and the bytes of the body. The line has no white space, and
//! its members stand in this order:
//!
//! | member | type | value |
//! |---|---|---|
//! | `headers` | array of `[name, value]` pairs of strings | the stored headers: equal names are adjacent, in the order of their values; each character of a value is one byte, U+0000 to U+00FF |
//! | `key` | string | the key, without quotes |
//! | `method` | string | the method |
//! | `quoted` | boolean | whether the header quotes the key, see [`KeyQuoting`] |
//! | `url` | string | the URL with its query |
//! | `version` | integer | `1` |
//!
//! The encoding never changes within a version, and later releases of this crate read every version that an earlier
//! release wrote. [`Call::decode`] accepts the members in any order and ignores unknown ones.
//!
//! # Other middleware
//!
//! [`Builder::build`] makes the client, and this middleware is its outermost. Do not put a retrying middleware around it:
//! each of its retries would be another call. Middleware that you add with
//! [`ClientBuilder::from_client`](reqwest_middleware::ClientBuilder::from_client) runs inside, once for each attempt and
//! each redirect.
//!
//! # Observability
//!
//! Events have the target `idem_client`: `will retry` (debug) for each retry, and `the journal could not forget a call`
//! (warn). They name the call by the [digest](Key::digest) of its key. The key's header is marked sensitive, so `Debug`
//! output of a request hides it. No event, error or `Debug` output of this crate contains a key or a body.

mod arriving;
mod builder;
mod call;
mod error;
mod error_response;
mod exchange;
mod journal;
mod key;
mod middleware;
mod response;

pub use builder::Builder;
pub use call::Call;
pub use error::{BoxError, Error, Failure, GaveUp, RefusedRedirect};
pub use error_response::ErrorResponse;
pub use journal::Journal;
pub use key::{Key, KeyQuoting};
pub use {reqwest, reqwest_middleware, retry_policies};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! The client's half: a [`reqwest`] client whose calls can be repeated until they have an answer, and take effect once.
//! It gives each call one `Idempotency-Key`, keeps it over every retry, and tells how to go on after a crash.
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
//! #         let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
//! #         connection.write_all(answer.as_bytes()).await?;
//! #     }
//! #     std::io::Result::Ok(())
//! # });
//! let client = Builder::new().budget(Duration::from_secs(60)).build(reqwest::Client::builder())?;
//!
//! let response = client
//!     .post(url)
//!     .with_extension(Key::new("order-17")?) // or leave it out: each call gets a random one
//!     .header("content-type", "application/json")
//!     .body(r#"{"amount":1999}"#)
//!     .send()
//!     .await?; // the first answer was a 503; nobody noticed
//! assert_eq!(response.status(), 201);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! For `https`, name `reqwest` in your own `Cargo.toml` with the TLS feature you want, such as `rustls`.
//!
//! # One call
//!
//! A call is one `send` (or `execute`). It gets its key before the first attempt: that of its `Idempotency-Key` header, of
//! the [`Key`] given as an extension, or a random UUID. All of its attempts have the same key and the same bytes; a
//! body that is a stream (or `multipart`) is refused before anything is sent. The next call has another key, on a clone of
//! the client, too. So do not repeat `send` yourself with a random key: that is a second call and can take effect twice.
//! The answer has the call's [`Key`] among its extensions.
//!
//! Only POST and PATCH get keys and retries ([`Builder::methods`]). Other requests are sent once, as they are.
//!
//! | what an attempt meets | what follows |
//! |---|---|
//! | the network's failure, an answer that breaks off (up to [`Builder::read_ahead`]), [no answer in time](Builder::attempt_timeout) | a retry |
//! | `409`, `5xx` | a retry |
//! | the same with `Idempotent-Replayed: true` | it is the answer: stored, so no retry changes it |
//! | any other `4xx`, `2xx` | it is the answer |
//! | `307`, `308` | followed with key and body, to the same origin or an [allowed](Builder::allow_origin) one; else [`Error::RedirectRefused`] |
//! | `303`; after a POST also `301`, `302` | followed as a GET without key and body |
//! | after a PATCH `301`, `302` | [`Error::RedirectRefused`]: it would go on without its key |
//!
//! Between attempts it waits: what `Retry-After` asks for, up to a [cap](Builder::max_retry_after), and on top of it a
//! random time up to an exponentially growing bound ([`Builder::backoff`]). If that does not fit into the
//! [budget](Builder::budget), or the budget ends, the error is [`Error::GaveUp`].
//!
//! A redirect to another origin loses `Authorization` and cookies, as in `reqwest`. `reqwest` itself follows none in such a
//! client: it would take the key along wherever the redirect leads.
//!
//! # After a crash
//!
//! With a [`Journal`] each call is kept before its first attempt; after a restart, [`Call::resume`] sends it again under its
//! key. Without one, [`Error::key`] has the key of a call that was given up.
//!
//! ```
//! # use idem_client::{BoxError, Call, reqwest_middleware::ClientWithMiddleware};
//! async fn resume_all(kept: Vec<Vec<u8>>, client: &ClientWithMiddleware, token: &str) -> Result<(), BoxError> {
//!     for bytes in kept {
//!         let answer = Call::decode(&bytes)?.resume(client).bearer_auth(token).send().await?;
//!         println!("{} {}", answer.status(), answer.text().await?);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # Other middleware
//!
//! [`Builder::build`] makes the client, with this middleware as its outermost: one that retries must not stand around it,
//! since each of its tries would be another call. What you add with
//! [`ClientBuilder::from_client`](reqwest_middleware::ClientBuilder::from_client) runs inside, once for each attempt and
//! redirect.
//!
//! # What is seen of it
//!
//! Events of the target `idem_runtime`, level debug, for each retry, with the key's [digest](Key::digest). The key's header
//! is marked sensitive, so that `Debug` of requests hides it. No key or body is in any event, error or `Debug`.

mod answer;
mod builder;
mod call;
mod error;
mod exchange;
mod journal;
mod key;
mod middleware;

pub use builder::Builder;
pub use call::Call;
pub use error::{BoxError, Error, Failure, GaveUp, RefusedRedirect};
pub use journal::Journal;
pub use key::{Key, KeyQuoting};
pub use {reqwest, reqwest_middleware, retry_policies};

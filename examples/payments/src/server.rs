//! The server around the handlers: start on a database and an address, stop without losing what runs.
//! The same for both databases, and for the demo.

use std::{io, net::SocketAddr, time::Duration};

use axum::Router;
use idem_runtime::{Backend, Idempotency};
use sqlx::Pool;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle, time::timeout};

use crate::{postgres, sqlite};

/// A record is of no use past its retention; nothing but space depends on how soon it goes.
const PRUNE_EVERY: Duration = Duration::from_hours(1);

/// How long a stopping server waits for open connections; a client that never ends its request may not hold it up.
const CONNECTIONS_END_WITHIN: Duration = Duration::from_secs(10);

/// How long it then waits for running handlers, those whose clients have gone among them.
const HANDLERS_END_WITHIN: Duration = Duration::from_secs(20);

const POOL_CLOSES_WITHIN: Duration = Duration::from_secs(2);

/// Why the server could not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    #[error("DATABASE_URL must begin with sqlite: or postgres:, and {0:?} does not")]
    UnknownDatabase(String),
    #[error("cannot listen on {listen} (LISTEN says where)")]
    Listen { listen: String, source: io::Error },
    #[error("cannot use the database of DATABASE_URL")]
    Database(#[from] sqlx::Error),
    #[error("the server failed")]
    Serve(#[from] io::Error),
    #[error(transparent)]
    Idempotency(#[from] idem_runtime::Error),
    #[error("the server's task failed")]
    Task(#[from] tokio::task::JoinError),
}

/// A running server.
pub(crate) struct Server {
    address: SocketAddr,
    stop: watch::Sender<()>,
    task: JoinHandle<Result<(), ServerError>>,
}

impl Server {
    /// Opens the database, creates the tables, and serves.
    pub(crate) async fn start(database_url: &str, listen: &str) -> Result<Self, ServerError> {
        let (scheme, _) = database_url.split_once(':').unwrap_or((database_url, ""));
        match scheme {
            "sqlite" => {
                let app = sqlite::open(database_url).await?;
                Self::serve(listen, app.router(), app.idempotency, app.pool).await
            }
            "postgres" | "postgresql" => {
                let app = postgres::open(database_url).await?;
                Self::serve(listen, app.router(), app.idempotency, app.pool).await
            }
            // Not the whole of it: it may hold a password.
            other => Err(ServerError::UnknownDatabase(other.to_owned())),
        }
    }

    async fn serve<Db: Backend>(
        listen: &str,
        router: Router,
        idempotency: Idempotency<Db>,
        pool: Pool<Db>,
    ) -> Result<Self, ServerError> {
        let cannot_listen = |source| ServerError::Listen { listen: listen.to_owned(), source };
        let listener = TcpListener::bind(listen).await.map_err(cannot_listen)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(());
        let task = tokio::spawn(async move {
            let pruner = idempotency.pruner(PRUNE_EVERY);
            until_stopped(listener, router, stopped).await?;
            pruner.stop().await;
            idempotency.drain(HANDLERS_END_WITHIN).await?;
            // SQLite tidies its files up when the last connection closes.
            let _closed = timeout(POOL_CLOSES_WITHIN, pool.close()).await;
            Ok(())
        });
        Ok(Self { address, stop, task })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts nothing more, lets what runs end, and returns.
    pub(crate) async fn stop(self) -> Result<(), ServerError> {
        drop(self.stop);
        self.task.await?
    }
}

/// Serves until told to stop, and then until the last connection has ended or the time for that is over.
async fn until_stopped(listener: TcpListener, router: Router, stopped: watch::Receiver<()>) -> io::Result<()> {
    // What is watched never changes: that its sender is gone is the signal.
    let stop = |mut stopped: watch::Receiver<()>| async move {
        let _gone = stopped.changed().await;
    };
    let serving = axum::serve(listener, router).with_graceful_shutdown(stop(stopped.clone()));
    let too_long = async {
        stop(stopped).await;
        tokio::time::sleep(CONNECTIONS_END_WITHIN).await;
    };
    tokio::select! {
        served = serving => served,
        () = too_long => {
            tracing::warn!("some connections were still open when the time for them was over");
            Ok(())
        }
    }
}

//! The server around the handlers: start on a database, a network and an address, stop without losing what runs.
//! The same for both databases. Beside the requests it runs recovery, without which a dead attempt stays undecided.

use std::{io, net::SocketAddr, num::ParseIntError, time::Duration};

use axum::Router;
use idem_runtime::{Backend, Idempotency, recovery::Recovery};
use sqlx::Pool;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle, time::timeout};

use crate::{network::Network, postgres, program::variable, sqlite};

/// A record is of no use past its retention; nothing but space depends on how soon it goes.
const PRUNE_EVERY: Duration = Duration::from_hours(1);

/// How long a stopping server waits for open connections; a client that never ends its request may not hold it up.
const CONNECTIONS_END_WITHIN: Duration = Duration::from_secs(10);

/// How long it then waits for running handlers, those whose clients have gone among them.
const HANDLERS_END_WITHIN: Duration = Duration::from_secs(20);

const POOL_CLOSES_WITHIN: Duration = Duration::from_secs(2);

/// Where it listens, and what it works with.
pub(crate) struct Settings {
    database: String,
    listen: String,
    network: String,
    network_timeout: Duration,
    recover_every: Duration,
}

impl Settings {
    pub(crate) fn from_environment() -> Result<Self, ServerError> {
        Ok(Self {
            database: variable("DATABASE_URL", "sqlite://charges.db"),
            listen: variable("LISTEN", "127.0.0.1:3000"),
            network: variable("NETWORK", "http://127.0.0.1:4000"),
            network_timeout: milliseconds("NETWORK_TIMEOUT", "5000")?,
            recover_every: milliseconds("RECOVER_EVERY", "1000")?,
        })
    }
}

fn milliseconds(name: &'static str, default: &str) -> Result<Duration, ServerError> {
    let value = variable(name, default);
    value.parse().map(Duration::from_millis).map_err(|source| ServerError::NoNumber { name, source })
}

/// Why the server could not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    #[error("DATABASE_URL must begin with sqlite: or postgres:, and {0:?} does not")]
    UnknownDatabase(String),
    #[error("{name} must be a number of milliseconds")]
    NoNumber { name: &'static str, source: ParseIntError },
    #[error("the client for NETWORK cannot be made")]
    Network(#[from] reqwest::Error),
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
    pub(crate) async fn start(settings: &Settings) -> Result<Self, ServerError> {
        let network = Network::new(&settings.network, settings.network_timeout)?;
        let (scheme, _) = settings.database.split_once(':').unwrap_or((&settings.database, ""));
        match scheme {
            "sqlite" => {
                let app = sqlite::open(&settings.database, network).await?;
                Self::serve(settings, app.router(), app.recovery(), app.idempotency, app.pool).await
            }
            "postgres" | "postgresql" => {
                let app = postgres::open(&settings.database, network).await?;
                Self::serve(settings, app.router(), app.recovery(), app.idempotency, app.pool).await
            }
            // Not the whole of it: it may hold a password.
            other => Err(ServerError::UnknownDatabase(other.to_owned())),
        }
    }

    async fn serve<Db: Backend>(
        settings: &Settings,
        router: Router,
        recovery: Recovery<Db>,
        idempotency: Idempotency<Db>,
        pool: Pool<Db>,
    ) -> Result<Self, ServerError> {
        let (listen, recover_every) = (&settings.listen, settings.recover_every);
        let cannot_listen = |source| ServerError::Listen { listen: listen.clone(), source };
        let listener = TcpListener::bind(listen).await.map_err(cannot_listen)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(());
        let task = tokio::spawn(async move {
            let pruner = idempotency.pruner(PRUNE_EVERY);
            let recovering = recovery.run_every(recover_every);
            until_stopped(listener, router, stopped).await?;
            recovering.stop().await;
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

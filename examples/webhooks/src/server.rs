//! The server around the handlers: start on a database and an address, stop without losing what runs.

use std::{io, net::SocketAddr, time::Duration};

use axum::Router;
use idem_runtime::{Backend, Idempotency};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

use crate::{Outcome, postgres, sqlite, verify::Secrets};

/// How long a stopping server waits for handlers that run.
const HANDLERS_END_WITHIN: Duration = Duration::from_secs(20);

/// A record is of no use past its retention; nothing but space depends on how soon it goes.
const PRUNE_EVERY: Duration = Duration::from_hours(1);

/// A running server.
pub(crate) struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
}

impl Server {
    /// Opens the database, creates the tables, and serves.
    pub(crate) async fn start(database: &str, listen: &str, secrets: Secrets) -> Outcome<Self> {
        if database.starts_with("postgres:") || database.starts_with("postgresql:") {
            let app = postgres::open(database, secrets).await?;
            Self::serve(listen, app.idempotency.clone(), app.router()).await
        } else {
            let app = sqlite::open(database, secrets).await?;
            Self::serve(listen, app.idempotency.clone(), app.router()).await
        }
    }

    async fn serve<Db: Backend>(listen: &str, idempotency: Idempotency<Db>, router: Router) -> Outcome<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let pruner = idempotency.pruner(PRUNE_EVERY);
            let stopped = async {
                let _told_or_gone = stopped.await;
            };
            axum::serve(listener, router).with_graceful_shutdown(stopped).await?;
            pruner.stop().await;
            idempotency.drain(HANDLERS_END_WITHIN).await.map_err(io::Error::other)
        });
        Ok(Self { address, stop, task })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts nothing more, lets what runs end, and returns.
    pub(crate) async fn stop(self) -> Outcome {
        drop(self.stop);
        Ok(self.task.await??)
    }
}

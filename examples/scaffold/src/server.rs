//! A running server: it listens, prints its address, prunes, and stops without losing a running handler.
//! It is the same for all examples and both databases.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    time::Duration,
};

use axum::Router;
use idem_runtime::{Backend, BackgroundTask, Idempotency};
use sqlx::Pool;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::program::{Failed, Outcome, stop_signal};

/// Expired records only take up space. Deleting them late does no harm.
const PRUNE_EVERY: Duration = Duration::from_hours(1);

/// How long a stopping server waits for open connections. A client that never finishes its request must not block it.
const CONNECTIONS_END_WITHIN: Duration = Duration::from_secs(10);

/// How long it then waits for running handlers. Some of them have lost their client.
const HANDLERS_END_WITHIN: Duration = Duration::from_secs(20);

const POOL_CLOSES_WITHIN: Duration = Duration::from_secs(2);

/// An application that is ready to serve.
#[derive(Debug)]
pub struct Service<Db: Backend> {
    /// The routes, with their state.
    pub router: Router,
    /// The value that the state holds too.
    pub idempotency: Idempotency<Db>,
    /// The pool of both.
    pub pool: Pool<Db>,
    /// The recovery task, if a handler has external effects.
    pub recovery: Option<BackgroundTask>,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<()>,
    task: JoinHandle<Outcome>,
}

/// Starts a server, prints a hint, and stops the server at SIGTERM or Ctrl-C.
pub async fn serve(
    starting: impl Future<Output = Outcome<Server>>,
    hint: impl FnOnce(SocketAddr) -> String,
) -> Outcome {
    // Before the address is printed: the first signal that anybody can send finds the process prepared.
    let stop = stop_signal()?;
    let server = starting.await?;
    // A reader that wanted only the first line has perhaps closed the pipe.
    let _hint = writeln!(io::stdout(), "{}", hint(server.address));
    stop.await;
    server.stop().await
}

/// Prints the first line on standard output. It tells other programs where to connect.
pub fn announce(address: SocketAddr) -> io::Result<()> {
    writeln!(io::stdout(), "listening on http://{address}")
}

impl Server {
    /// Listens and prints the address.
    pub async fn start<Db: Backend>(listen: &str, service: Service<Db>) -> Outcome<Self> {
        let cannot_listen = |error| Failed::new(format!("cannot listen on {listen} (set LISTEN)"), error);
        let listener = TcpListener::bind(listen).await.map_err(cannot_listen)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(());
        let task = tokio::spawn(run(listener, service, stopped));
        announce(address)?;
        Ok(Self { address, stop, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no more connections, waits for running handlers, and returns.
    pub async fn stop(self) -> Outcome {
        drop(self.stop);
        self.task.await?
    }
}

async fn run<Db: Backend>(listener: TcpListener, service: Service<Db>, stopped: watch::Receiver<()>) -> Outcome {
    let Service { router, idempotency, pool, recovery } = service;
    let pruner = idempotency.pruner(PRUNE_EVERY);
    serve_until(stopped, listener, router).await?;
    if let Some(recovery) = recovery {
        recovery.stop().await;
    }
    pruner.stop().await;
    idempotency.drain(HANDLERS_END_WITHIN).await?;
    // SQLite merges its write-ahead log into the database file when the last connection closes.
    let _closed = timeout(POOL_CLOSES_WITHIN, pool.close()).await;
    Ok(())
}

/// Serves until the stop signal. Then waits for the last connection, or until the time limit.
async fn serve_until(stopped: watch::Receiver<()>, listener: TcpListener, router: Router) -> io::Result<()> {
    // The watched value never changes. The signal is the drop of its sender.
    let stop = |mut stopped: watch::Receiver<()>| async move {
        let _dropped = stopped.changed().await;
    };
    let serving = axum::serve(listener, router).with_graceful_shutdown(stop(stopped.clone()));
    let too_long = async {
        stop(stopped).await;
        sleep(CONNECTIONS_END_WITHIN).await;
    };
    tokio::select! {
        served = serving => served,
        () = too_long => {
            tracing::warn!("some connections are still open after the time limit");
            Ok(())
        }
    }
}

//! A TCP proxy in front of PostgreSQL that breaks connections where a test says, at a statement and not at a time.
//! What is here says what to break; `connection` reads the messages and breaks.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use sqlx::postgres::PgConnectOptions;
use tokio::{
    net::TcpListener,
    sync::{Notify, watch},
    task::{JoinHandle, JoinSet},
};

use crate::{databases::Postgres, soon};

mod connection;

/// What the network does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Bytes pass.
    Up,
    /// Connections are accepted and kept, no byte passes: a paused server.
    Frozen,
    /// New connections are closed at once: a stopped server. Open ones live on until [`Proxy::cut_all`].
    Down,
}

/// Where a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The statement never reaches the server.
    Before,
    /// The server has run the statement; its response never reaches the client.
    After,
}

/// The proxy. Dropping it cuts everything.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    server: (String, u16),
    network: watch::Sender<Network>,
    delay: watch::Sender<Duration>,
    traps: Mutex<Vec<Armed>>,
    connections: Mutex<JoinSet<()>>,
}

struct Armed {
    text: String,
    action: Action,
    signals: Arc<Signals>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Cut(Cut),
    Hold,
    HoldAnswer,
}

#[derive(Default)]
struct Signals {
    sprung: Notify,
    released: Notify,
}

/// What waits for a statement. It acts once.
#[must_use]
pub struct Trap(Arc<Signals>);

impl Trap {
    /// Waits until it has acted: the connection is cut, or the statement or its response is held.
    #[track_caller]
    pub fn sprung(&self) -> impl Future<Output = ()> {
        soon("the statement to meet its trap", self.0.sprung.notified())
    }

    /// Lets a held statement or response go on.
    pub fn release(&self) {
        self.0.released.notify_one();
    }
}

impl Proxy {
    /// Starts in front of a database's server.
    pub async fn start(database: &Postgres) -> Self {
        let server = (database.options().get_host().to_owned(), database.options().get_port());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            server,
            network: watch::Sender::new(Network::Up),
            delay: watch::Sender::default(),
            traps: Mutex::default(),
            connections: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, accepting }
    }

    /// How to connect to the database through here.
    pub fn options(&self, database: &Postgres) -> PgConnectOptions {
        database.options().host("127.0.0.1").port(self.address.port())
    }

    /// Changes what the network does, for open connections too.
    pub fn set(&self, network: Network) {
        self.shared.network.send_replace(network);
    }

    /// Makes each round trip take so much longer.
    pub fn delay(&self, by: Duration) {
        self.shared.delay.send_replace(by);
    }

    /// Cuts every connection. When this returns they are cut.
    pub async fn cut_all(&self) {
        let mut connections = std::mem::take(&mut *lock(&self.shared.connections));
        connections.shutdown().await;
    }

    /// Cuts the next connection that runs a statement with this text in its SQL.
    pub fn cut(&self, cut: Cut, text: &str) -> Trap {
        self.arm(Action::Cut(cut), text)
    }

    /// Stops the next statement with this text in its SQL before the server, until the trap is released.
    pub fn hold(&self, text: &str) -> Trap {
        self.arm(Action::Hold, text)
    }

    /// Lets the server run the next statement with this text in its SQL. Keeps the response until the trap is released.
    pub fn hold_answer(&self, text: &str) -> Trap {
        self.arm(Action::HoldAnswer, text)
    }

    fn arm(&self, action: Action, text: &str) -> Trap {
        let signals = Arc::<Signals>::default();
        lock(&self.shared.traps).push(Armed { text: text.to_owned(), action, signals: Arc::clone(&signals) });
        Trap(signals)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        lock(&self.shared.connections).abort_all();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let one = connection::serve(client, Arc::clone(&shared));
        lock(&shared.connections).spawn(async {
            // An error is a connection's end, which is what the other side sees.
            if let Ok(Some(signals)) = one.await {
                signals.sprung.notify_one();
            }
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

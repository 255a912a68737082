//! A closed road to the card network: connections are accepted and what is sent on them goes nowhere.
//! To the app it looks like a call under way; the network has heard nothing.

use std::net::SocketAddr;

use idem_tests::soon;
use tokio::{
    io::AsyncReadExt,
    net::TcpListener,
    sync::watch,
    task::{JoinHandle, JoinSet},
};

/// Dropping it closes what it accepted.
pub struct Closed {
    address: SocketAddr,
    arrived: watch::Sender<u64>,
    accepting: JoinHandle<()>,
}

impl Closed {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let arrived = watch::Sender::new(0);
        let counted = arrived.clone();
        let accepting = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((mut connection, _)) = listener.accept().await {
                let counted = counted.clone();
                open.spawn(async move {
                    // Whatever comes first is the beginning of a request.
                    let _ = connection.read(&mut [0; 1024]).await;
                    counted.send_modify(|arrived| *arrived += 1);
                    let _ = connection.read_to_end(&mut Vec::new()).await;
                });
            }
        });
        Self { address, arrived, accepting }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until a request has come as far as here.
    pub async fn arrived(&self) {
        let mut arrived = self.arrived.subscribe();
        soon("a request at the closed road", arrived.wait_for(|arrived| *arrived > 0)).await.expect("a counter");
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

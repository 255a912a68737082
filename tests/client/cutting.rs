//! A TCP proxy between client and server, which cuts a connection before the request, before the response or within it.
//! One cut a connection, in order; after the last it only passes on. Where it leads can be changed, as a restart does.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

use crate::breaking::{read_body, read_head};

/// Where a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The request never reaches the server.
    BeforeRequest,
    /// The server has the request; nobody waits for the response.
    AfterRequest,
    /// The server has answered, so it is done; not a byte of it reaches the client.
    BeforeAnswer,
    /// The client gets all but the last byte of the response.
    WithinAnswer,
}

pub(crate) struct Cutting {
    address: SocketAddr,
    server: watch::Sender<SocketAddr>,
    cuts: Arc<Mutex<VecDeque<Cut>>>,
    accepting: JoinHandle<()>,
}

impl Cutting {
    pub(crate) async fn start(server: SocketAddr, cuts: impl IntoIterator<Item = Cut>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (server, leads) = watch::channel(server);
        let cuts = Arc::new(Mutex::new(cuts.into_iter().collect::<VecDeque<_>>()));
        let left = Arc::clone(&cuts);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (cut, server) = (left.lock().unwrap().pop_front(), *leads.borrow());
                tokio::spawn(serve(client, server, cut));
            }
        });
        Self { address, server, cuts, accepting }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// From now on it leads there.
    pub(crate) fn lead_to(&self, server: SocketAddr) {
        self.server.send_replace(server);
    }

    /// Whether every cut was made.
    pub(crate) fn is_through(&self) -> bool {
        self.cuts.lock().unwrap().is_empty()
    }
}

impl Drop for Cutting {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(mut client: TcpStream, server: SocketAddr, cut: Option<Cut>) -> Option<()> {
    let mut server = TcpStream::connect(server).await.ok()?;
    let Some(cut) = cut else {
        copy_bidirectional(&mut client, &mut server).await.ok()?;
        return None;
    };
    let (head, rest) = read_head(&mut client).await?;
    let body = read_body(&mut client, &head, rest).await?;
    // A cut before the response is a reset.
    if cut != Cut::WithinAnswer {
        client.set_zero_linger().unwrap();
    }
    if cut == Cut::BeforeRequest {
        return None;
    }
    server.write_all(&[head.as_bytes(), &body].concat()).await.ok()?;
    if cut == Cut::AfterRequest {
        return None;
    }
    let (head, rest) = read_head(&mut server).await?;
    let body = read_body(&mut server, &head, rest).await?;
    if cut == Cut::BeforeAnswer {
        return None;
    }
    let answer = [head.as_bytes(), &body].concat();
    client.write_all(&answer[..answer.len() - 1]).await.ok()?;
    // An orderly end: a reset could overtake the bytes, and the response must break off in the middle.
    client.shutdown().await.ok()?;
    let _ = client.read_to_end(&mut Vec::new()).await;
    None
}

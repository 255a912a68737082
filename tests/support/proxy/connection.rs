//! One proxied connection. It reads PostgreSQL's messages (unencrypted, version 3), so it knows which statement passes,
//! and when the server has answered it.

use std::{collections::HashMap, io, sync::Arc};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

use super::{Action, Armed, Cut, Network, Shared, Signals, lock};

/// Serves one connection to its end. Returns the signals of the trap that cut it, to send after the sockets are closed.
pub(super) async fn serve(client: TcpStream, shared: Arc<Shared>) -> io::Result<Option<Arc<Signals>>> {
    let mut network = shared.network.subscribe();
    if *network.wait_for(|now| *now != Network::Frozen).await.map_err(io::Error::other)? == Network::Down {
        return Ok(None);
    }
    let server = TcpStream::connect((shared.server.0.as_str(), shared.server.1)).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let flow =
        Flow { answered: watch::Sender::new(0), swallow: watch::Sender::new(false), dam: watch::Sender::new(false) };
    let upward = Upward {
        from: Messages { stream: from_client, buffer: Vec::new() },
        to: to_server,
        shared: &shared,
        flow: &flow,
        prepared: HashMap::new(),
        asked: 0,
    };
    tokio::select! {
        end = upward.run() => end.map(Some),
        end = downward(from_server, to_client, &shared, &flow) => end.map(|()| None),
    }
}

/// What the two directions of a connection know of each other.
struct Flow {
    /// How often the server has said "ready for query".
    answered: watch::Sender<usize>,
    /// Whether the server's responses are kept from the client for good.
    swallow: watch::Sender<bool>,
    /// Whether they are kept from it for now.
    dam: watch::Sender<bool>,
}

struct Upward<'a> {
    from: Messages,
    to: OwnedWriteHalf,
    shared: &'a Shared,
    flow: &'a Flow,
    prepared: HashMap<Vec<u8>, String>,
    /// How often the server owes a "ready for query".
    asked: usize,
}

impl Upward<'_> {
    async fn run(mut self) -> io::Result<Arc<Signals>> {
        let startup = self.from.next(0).await?;
        self.forward(&startup, true).await?;
        let (mut cutting, mut damming) = (None, None);
        loop {
            let message = self.from.next(1).await?;
            let trap = self.statement(&message).and_then(|sql| self.take_trap(&sql));
            match trap.map(|trap| (trap.action, trap.signals)) {
                Some((Action::Cut(Cut::Before), signals)) => return Ok(signals),
                Some((Action::Cut(Cut::After), signals)) => {
                    self.flow.swallow.send_replace(true);
                    cutting = Some(signals);
                }
                Some((Action::Hold, signals)) => {
                    signals.sprung.notify_one();
                    signals.released.notified().await;
                }
                Some((Action::HoldAnswer, signals)) => {
                    self.flow.dam.send_replace(true);
                    damming = Some(signals);
                }
                None => {}
            }
            // Query and Sync: the server answers up to "ready for query". Before that it may keep its responses.
            let asks = matches!(message[0], b'Q' | b'S');
            self.forward(&message, asks).await?;
            if let Some(signals) = cutting.take_if(|_| asks) {
                self.all_answered().await?;
                return Ok(signals);
            }
            if let Some(signals) = damming.take_if(|_| asks) {
                self.all_answered().await?;
                signals.sprung.notify_one();
                signals.released.notified().await;
                self.flow.dam.send_replace(false);
            }
        }
    }

    /// Waits until the server has answered all that it was asked.
    async fn all_answered(&self) -> io::Result<()> {
        let all = self.asked;
        let mut answered = self.flow.answered.subscribe();
        answered.wait_for(|answered| *answered >= all).await.map(|_| ()).map_err(io::Error::other)
    }

    async fn forward(&mut self, message: &[u8], asks: bool) -> io::Result<()> {
        if asks {
            self.asked += 1;
            let delay = *self.shared.delay.borrow();
            tokio::time::sleep(delay).await;
        }
        thawed(self.shared).await?;
        self.to.write_all(message).await
    }

    /// The SQL that a message runs: its own, or that of the prepared statement it binds.
    fn statement(&mut self, message: &[u8]) -> Option<String> {
        let mut strings = message[5..].split(|&byte| byte == 0);
        match message[0] {
            b'Q' => Some(String::from_utf8_lossy(strings.next()?).into_owned()),
            b'P' => {
                let (name, sql) = (strings.next()?.to_vec(), String::from_utf8_lossy(strings.next()?).into_owned());
                self.prepared.insert(name, sql);
                None
            }
            b'B' => self.prepared.get(strings.nth(1)?).cloned(),
            _ => None,
        }
    }

    fn take_trap(&self, sql: &str) -> Option<Armed> {
        let mut traps = lock(&self.shared.traps);
        let met = traps.iter().position(|trap| sql.contains(&trap.text))?;
        Some(traps.remove(met))
    }
}

async fn downward(from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared, flow: &Flow) -> io::Result<()> {
    let mut from = Messages { stream: from, buffer: Vec::new() };
    let mut dam = flow.dam.subscribe();
    let mut kept = Vec::new();
    loop {
        let message = from.next(1).await?;
        let ready = message[0] == b'Z';
        if !*flow.swallow.borrow() {
            kept.extend(message);
        }
        if ready {
            flow.answered.send_modify(|answered| *answered += 1);
        }
        // Behind a dam a response is collected to its end; then the server sends nothing before the next statement.
        if ready || !*dam.borrow() {
            dam.wait_for(|dam| !dam).await.map_err(io::Error::other)?;
            thawed(shared).await?;
            to.write_all(&std::mem::take(&mut kept)).await?;
        }
    }
}

/// One direction, cut into messages: a type byte (not in the first), a length that counts itself, the rest.
struct Messages {
    stream: OwnedReadHalf,
    buffer: Vec<u8>,
}

impl Messages {
    async fn next(&mut self, type_bytes: usize) -> io::Result<Vec<u8>> {
        loop {
            if let Some(length) = self.buffer.get(type_bytes..type_bytes + 4) {
                let length = u32::from_be_bytes(length.try_into().map_err(io::Error::other)?);
                let end = type_bytes + usize::try_from(length).map_err(io::Error::other)?;
                if self.buffer.len() >= end {
                    return Ok(self.buffer.drain(..end).collect());
                }
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

async fn thawed(shared: &Shared) -> io::Result<()> {
    let mut network = shared.network.subscribe();
    network.wait_for(|now| *now != Network::Frozen).await.map(|_| ()).map_err(io::Error::other)
}

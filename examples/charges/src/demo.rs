//! One charge, one crash: the app is killed between the charge and the record. A timeline shows the recovery.
//! The demo checks every line, so it fails if the guarantee fails.

use std::net::SocketAddr;

use scaffold::{
    demo::{
        Folder, Timeline,
        http::{Replayed, Request, Response},
        process::ServerProcess,
        random, retry, say, until,
    },
    program::Outcome,
    server::announce,
};
use serde_json::{Value, json};

/// The card network's ledger is always a temporary file.
pub(crate) async fn run() -> Outcome {
    let folder = Folder::new()?;
    let network = ServerProcess::start(&["card-network"], &[("LEDGER", &folder.sqlite("ledger.db"))]).await?;
    let app = App { database: folder.database(), network: network.url() };
    let first = app.start().await?;
    announce(first.address)?;
    Demo::new(app, network.address)?.show(first).await?;
    network.child.stop().await
}

/// Starts the app, which happens twice.
struct App {
    database: String,
    network: String,
}

impl App {
    async fn start(&self) -> Outcome<ServerProcess> {
        ServerProcess::start(&[], &[("DATABASE_URL", &self.database), ("NETWORK", &self.network)]).await
    }
}

struct Demo {
    app: App,
    network: SocketAddr,
    timeline: Timeline,
    /// The same request, each time.
    charge: Request,
    /// A name that no other run uses: old charges in the database do not change the result.
    ada: String,
}

impl Demo {
    fn new(app: App, network: SocketAddr) -> Outcome<Self> {
        let (key, ada) = (format!("order-{:016x}", random()), format!("ada-{:04x}", random() & 0xffff));
        let body = json!({ "amount": 1999, "currency": "USD", "source": "tok_visa" });
        let charge = Request::post("/charges", &body).account(&ada).key(&key);
        let timeline =
            Timeline::start(&format!("One charge, one crash. Ada's requests carry\nIdempotency-Key: {key}"))?;
        Ok(Self { app, network, timeline, charge, ada })
    }

    async fn show(&self, app: ServerProcess) -> Outcome {
        let charged = self.charged_and_killed(app).await?;
        let app = self.app.start().await?;
        self.retry_at_once(app.address).await?;
        let replayed = self.retry_after_recovery(app.address, &charged).await?;
        self.retry_again(app.address, &replayed).await?;
        self.count(app.address, &charged, &replayed).await?;
        app.child.stop().await
    }

    async fn charged_and_killed(&self, app: ServerProcess) -> Outcome<Value> {
        self.timeline.step(1, "Ada pays 19.99 USD. The card network charges her card and holds its response.")?;
        Request::post("/control", &json!({ "next": "hold-answer" })).response(self.network).await?;
        let connection = self.charge.send(app.address).await?;
        until("the network charges", async || Ok(self.network("/control").await?["holding"] == 1)).await?;
        let ledger = self.network("/ledger").await?;
        let [charged] = ledger["data"].as_array().map(Vec::as_slice).unwrap_or_default() else {
            return Err(format!("step 1: expected one charge in the ledger: {ledger}").into());
        };
        let (id, key) = (text(charged, "id"), text(charged, "key"));
        self.timeline.note("charged", &format!("{id}, under the derived key {key}"))?;

        self.timeline.step(2, "At this moment the app is killed: SIGKILL, after the charge and before the record.")?;
        app.child.kill().await?;
        if Response::read(connection).await.is_ok() {
            return Err("step 2: the killed app responded".into());
        }
        self.timeline.note("no response", "the card is charged, and the app's database does not have the charge")?;
        Ok(charged.clone())
    }

    async fn retry_at_once(&self, app: SocketAddr) -> Outcome {
        self.timeline.step(3, "The app starts again, and Ada retries at once.")?;
        let response = self.charge.response(app).await?;
        response.expect(3, 409, Some("in-progress"), Replayed::No)?;
        let after = response.header("retry-after").ok_or("step 3: the 409 has no Retry-After")?;
        let meaning = format!("code in-progress, Retry-After: {after}. The outcome is unknown, so nothing runs");
        self.timeline.note(&response.status_line(), &meaning)
    }

    async fn retry_after_recovery(&self, app: SocketAddr, charged: &Value) -> Outcome<Response> {
        self.timeline
            .step(4, "She waits as Retry-After says. Recovery looks the key up at the network and records it.")?;
        let response = retry(async || self.charge.response(app).await).await?;
        response.expect(4, 201, None, Replayed::Yes)?;
        if response.json()["id"] != charged["id"] {
            return Err(format!("step 4: this is another charge: {}", response.body).into());
        }
        self.timeline.note(&response.status_line(), "Idempotent-Replayed: true, the response that was never sent")?;
        self.timeline.detail(&response.body)?;
        Ok(response)
    }

    async fn retry_again(&self, app: SocketAddr, replayed: &Response) -> Outcome {
        self.timeline.step(5, "She retries once more, to be sure.")?;
        let response = self.charge.response(app).await?;
        response.expect(5, 201, None, Replayed::Yes)?;
        if response.body != replayed.body {
            return Err(format!("step 5: {} differs from the response of step 4", response.body).into());
        }
        self.timeline.note(&response.status_line(), "the same response, byte for byte")
    }

    /// Compares the network's ledger, the database and the app with the timeline.
    async fn count(&self, app: SocketAddr, charged: &Value, replayed: &Response) -> Outcome {
        let ledger = self.network("/ledger").await?;
        let rows = Request::get("/charges").account(&self.ada).response(app).await?.json();
        let runs = Request::get("/runs").response(app).await?.json();
        let same = json!([charged]) == ledger["data"] && json!([replayed.json()]) == rows["data"];
        if !same || ledger["count"] != 1 || rows["count"] != 1 || runs["runs"] != 0 {
            let found = format!("the ledger has {ledger}, the database {rows}, and {runs} since the restart");
            return Err(format!("expected one charge, one row and no run after the crash: {found}").into());
        }
        say("\nAll requests together: 1 charge in the network's ledger, 1 row in the app's database.\n\
             The handler ran 1 time; after the crash, 0 times.\n")
    }

    async fn network(&self, path: &str) -> Outcome<Value> {
        Ok(Request::get(path).response(self.network).await?.json())
    }
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

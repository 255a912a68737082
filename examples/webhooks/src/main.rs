//! A receiver of signed webhooks: `handlers.rs` is what an application writes, `verify.rs` what makes it safe.
//! Without arguments it serves; `demo` serves, and sends events as badly as senders do.

mod demo;
mod postgres;
mod sender;
mod server;
mod sqlite;
mod stripe_signature;
mod verify;

use std::{
    env,
    error::Error,
    io::{self, Write as _},
    process::ExitCode,
};

use server::Server;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use verify::Secrets;

const USAGE: &str = "\
usage: example-webhooks [demo]

  (nothing)   serve until Ctrl-C
  demo        serve, send events that are lost, doubled, forged and too early, and end

environment
  LISTEN           where to listen, port 0 for a free one (default 127.0.0.1:3000; the demo takes a free port)
  DATABASE_URL     sqlite://FILE or postgres://… (default sqlite://webhooks.db; the demo's is temporary)
  STANDARD_SECRET  whsec_… of the sender that follows Standard Webhooks (default: one for trying out)
  STRIPE_SECRET    whsec_… of Stripe's endpoint (default: one for trying out)
  RUST_LOG         what to log to stderr (default error; idem_runtime=info shows the outcome of each delivery)";

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::ERROR.into()).from_env_lossy();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    let arguments: Vec<_> = env::args().skip(1).collect();
    let ended = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => serve().await,
        ["demo"] => demo::run().await,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Outcome {
    let database = variable("DATABASE_URL").unwrap_or_else(|| "sqlite://webhooks.db".to_owned());
    let listen = variable("LISTEN").unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let server = Server::start(&database, &listen, secrets()?).await?;
    announce(&server)?;
    tokio::signal::ctrl_c().await?;
    server.stop().await
}

/// The first line on stdout.
fn announce(server: &Server) -> io::Result<()> {
    writeln!(io::stdout(), "listening on http://{}", server.address())
}

fn secrets() -> Outcome<Secrets> {
    let standard = variable("STANDARD_SECRET").unwrap_or_else(|| "whsec_dGhpcyBpcyBmb3IgdHJ5aW5nIG91dA==".to_owned());
    let stripe = variable("STRIPE_SECRET").unwrap_or_else(|| "whsec_for_trying_out".to_owned());
    Ok(Secrets::new(&standard, &stripe)?)
}

/// An environment variable; an empty one counts as unset.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

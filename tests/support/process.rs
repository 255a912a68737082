//! Servers as separate processes, to kill, stop and watch: the programs of the examples.
//! Signals go through the shell's `kill`, which every system has, and which needs no unsafe code.

use std::{
    env,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, OnceLock},
};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, Command},
    sync::oneshot,
    task::JoinSet,
};

use crate::soon;

/// A running server. Dropping it kills it.
pub struct Process {
    child: Child,
    address: SocketAddr,
    output: Arc<Mutex<String>>,
    collecting: JoinSet<()>,
}

/// Starts the example `payments` on a free port and a database.
pub async fn payments(database_url: &str) -> Process {
    let mut command = payments_command();
    command.env("LISTEN", "127.0.0.1:0").env("DATABASE_URL", database_url);
    Process::start(command).await
}

/// The command of the example `payments`, without environment of ours, for other arguments and variables.
pub fn payments_command() -> Command {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    command(BUILT.get_or_init(|| build("example-payments")), "example-payments")
}

/// The command of one of the two programs of the example `charges`.
pub fn charges_command(program: &str) -> Command {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    command(BUILT.get_or_init(|| build("example-charges")), program)
}

/// The command of the example `consumer`.
pub fn consumer_command() -> Command {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    command(BUILT.get_or_init(|| build("example-consumer")), "example-consumer")
}

/// The command of the example `webhooks`.
pub fn webhooks_command() -> Command {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    command(BUILT.get_or_init(|| build("example-webhooks")), "example-webhooks")
}

fn command(folder: &Path, program: &str) -> Command {
    let mut command = Command::new(folder.join(format!("{program}{}", env::consts::EXE_SUFFIX)));
    command.env_remove("LISTEN").env_remove("DATABASE_URL");
    command
}

/// Builds a package, even where its programs are there: they could be yesterday's. When they are current this takes no
/// time. Returns the folder that they are in.
fn build(package: &str) -> PathBuf {
    // TARGET/PROFILE/deps/test-executable
    let executable = env::current_exe().expect("the test executable's path");
    let folder = executable.ancestors().nth(2).expect("a profile's folder");
    let profile = folder.file_name().and_then(|name| name.to_str()).expect("a profile's name");
    let status = std::process::Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--package", package, "--profile"])
        .arg(if profile == "debug" { "dev" } else { profile })
        .arg("--target-dir")
        .arg(folder.parent().expect("a target folder"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .status()
        .expect("cargo");
    assert!(status.success(), "{package} does not build");
    folder.to_owned()
}

impl Process {
    /// Starts a server and waits for its first line, `listening on http://ADDRESS`.
    pub async fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (output, mut collecting) = (Arc::default(), JoinSet::new());
        let (first, listening) = oneshot::channel();
        collecting.spawn(collect(child.stdout.take().expect("a pipe"), Arc::clone(&output), Some(first)));
        collecting.spawn(collect(child.stderr.take().expect("a pipe"), Arc::clone(&output), None));
        let line = soon("the server's first line", listening).await.unwrap_or_default();
        let address = line.strip_prefix("listening on http://").and_then(|address| address.parse().ok());
        let address = address.unwrap_or_else(|| panic!("no address in {line:?}; {}", output.lock().expect("a lock")));
        Self { child, address, output, collecting }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has printed up to now, both streams.
    pub fn output(&self) -> String {
        self.output.lock().expect("a lock").clone()
    }

    /// Sends a signal: `TERM`, `KILL`, `STOP`, `CONT`.
    pub async fn signal(&self, name: &str) {
        let id = self.child.id().expect("a running process");
        let status = Command::new("sh").args(["-c", &format!("kill -{name} {id}")]).status().await;
        assert!(status.expect("sh").success(), "kill -{name} {id}");
    }

    /// Waits for its end; then [`output`](Self::output) is all there was.
    pub async fn wait(&mut self) -> ExitStatus {
        let status = soon("the process to end", self.child.wait()).await.expect("an exit status");
        soon("the end of its output", async { while self.collecting.join_next().await.is_some() {} }).await;
        status
    }
}

async fn collect(
    stream: impl AsyncRead + Unpin,
    output: Arc<Mutex<String>>,
    mut first: Option<oneshot::Sender<String>>,
) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        {
            let mut output = output.lock().expect("a lock");
            output.push_str(&line);
            output.push('\n');
        }
        if let Some(first) = first.take() {
            let _ = first.send(line);
        }
    }
}

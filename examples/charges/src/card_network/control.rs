//! The commands for the next charges, and the charges that the network holds until a release.
//! A test or demo that waits for a hold polls `holding`. It never guesses a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// How one charge is treated.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Conduct {
    #[default]
    Normal,
    Delay,
    Refuse,
    Fail,
    HoldRequest,
    HoldAnswer,
    CutAnswer,
    DropAnswer,
}

#[derive(Clone, Copy, Default, Deserialize)]
pub(super) struct Command {
    next: Conduct,
    /// 1 by default. 0 means all charges until the next command.
    times: Option<u32>,
    #[serde(default)]
    milliseconds: u64,
}

/// The response of `GET /control`.
#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct State {
    requests: u64,
    holding: u64,
    /// How often a client looked a charge up.
    lookups: u64,
}

#[derive(Default)]
pub(super) struct Control {
    current: Mutex<Current>,
    /// The number of releases.
    releases: watch::Sender<u64>,
}

#[derive(Default)]
struct Current {
    command: Command,
    state: State,
}

impl Control {
    pub(super) fn command(&self, command: Command) {
        self.lock().command = command;
    }

    /// How to treat the charge that was just requested, and its delay.
    pub(super) fn next(&self) -> (Conduct, u64) {
        let mut current = self.lock();
        current.state.requests += 1;
        let command = current.command;
        match command.times.unwrap_or(1) {
            0 => {}
            1 => current.command = Command::default(),
            more => current.command.times = Some(more - 1),
        }
        (command.next, command.milliseconds)
    }

    /// Waits for the next release.
    pub(super) async fn hold(&self) {
        let mut releases = self.releases.subscribe();
        let _held = Held::new(self);
        // Cannot fail: `self` owns the sender.
        let _released = releases.changed().await;
    }

    pub(super) fn release(&self) {
        self.releases.send_modify(|releases| *releases += 1);
    }

    pub(super) fn looked_up(&self) {
        self.lock().state.lookups += 1;
    }

    pub(super) fn state(&self) -> State {
        self.lock().state
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts as held until it is dropped. If the client goes first, it is dropped with the handler.
struct Held<'c>(&'c Control);

impl<'c> Held<'c> {
    fn new(control: &'c Control) -> Self {
        control.lock().state.holding += 1;
        Self(control)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.lock().state.holding -= 1;
    }
}

//! What the network was told to do with the next charges, and what it holds until it is released.
//! Whoever waits for a hold reads `holding`: no test or demo needs to guess a time.

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
pub(super) struct Order {
    next: Conduct,
    /// Once, if it is not said; 0 is until told otherwise.
    times: Option<u32>,
    #[serde(default)]
    milliseconds: u64,
}

/// What `GET /control` tells.
#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct State {
    requests: u64,
    holding: u64,
    /// How often it was asked what became of a charge.
    lookups: u64,
}

#[derive(Default)]
pub(super) struct Control {
    told: Mutex<Told>,
    /// How often everything was released.
    releases: watch::Sender<u64>,
}

#[derive(Default)]
struct Told {
    order: Order,
    state: State,
}

impl Control {
    pub(super) fn tell(&self, order: Order) {
        self.lock().order = order;
    }

    /// How to treat the charge that has just been asked for, and for how long to delay it.
    pub(super) fn next(&self) -> (Conduct, u64) {
        let mut told = self.lock();
        told.state.requests += 1;
        let order = told.order;
        match order.times.unwrap_or(1) {
            0 => {}
            1 => told.order = Order::default(),
            more => told.order.times = Some(more - 1),
        }
        (order.next, order.milliseconds)
    }

    /// Ends when everything is released, from now on.
    pub(super) async fn hold(&self) {
        let mut releases = self.releases.subscribe();
        let _held = Held::new(self);
        // Cannot fail while `self` is there.
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

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counted as held until it is dropped, with the client if that goes first.
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

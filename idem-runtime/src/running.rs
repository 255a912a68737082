//! The keys in hand in this process at this moment, so that a twin is answered without a connection.
//! An entry lives from the look at a key to the end of its claim; nothing else about keys is kept in memory.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::{
    backend::{Twin, Wanted},
    digest::Digest,
    fingerprint::Print,
};

/// The keys in hand now.
#[derive(Default)]
pub(crate) struct Running {
    keys: Mutex<HashMap<Digest, State>>,
    /// Wakes whoever waits for a key to run or to end.
    changed: Notify,
}

#[derive(Clone, Copy)]
enum State {
    /// One request asks the database about the key; its twins wait for what it learns instead of asking too.
    Looking,
    /// The database has granted the claim, for this request.
    Running(Print),
}

/// A key in hand; dropping it lets go.
pub(crate) struct Presence {
    running: Arc<Running>,
    id: Digest,
}

impl Running {
    /// Takes the key in hand, or tells what runs under it. Waits only while another request looks at it.
    pub(crate) async fn enter(self: &Arc<Self>, wanted: &Wanted) -> Result<Presence, Twin> {
        self.until(|keys| match keys.get(&wanted.id) {
            None => {
                keys.insert(wanted.id, State::Looking);
                Some(Ok(Presence { running: Arc::clone(self), id: wanted.id }))
            }
            Some(State::Looking) => None,
            Some(State::Running(print)) if *print == wanted.fingerprint => Some(Err(Twin::Same)),
            Some(State::Running(_)) => Some(Err(Twin::Other)),
        })
        .await
    }

    /// Waits until nobody in this process has the key in hand.
    pub(crate) async fn end(&self, wanted: &Wanted) {
        self.until(|keys| (!keys.contains_key(&wanted.id)).then_some(())).await;
    }

    /// Whether any key's handler runs here.
    pub(crate) fn any_runs(&self) -> bool {
        self.keys().values().any(|state| matches!(state, State::Running(_)))
    }

    pub(crate) fn has(&self, wanted: &Wanted) -> bool {
        self.keys().contains_key(&wanted.id)
    }

    /// Looks again after every change until `look` finds what it looks for.
    async fn until<T>(&self, look: impl Fn(&mut HashMap<Digest, State>) -> Option<T>) -> T {
        loop {
            // Registered before the look, so that no change falls between the two.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = look(&mut self.keys()) {
                return found;
            }
            changed.await;
        }
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<Digest, State>> {
        // Every change is one map operation, so the map is whole whatever panicked.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Presence {
    /// The database has granted the claim: twins are answered from here on.
    pub(crate) fn runs(&self, wanted: &Wanted) {
        self.running.keys().insert(self.id, State::Running(wanted.fingerprint));
        self.running.changed.notify_waiters();
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.running.keys().remove(&self.id);
        self.running.changed.notify_waiters();
    }
}

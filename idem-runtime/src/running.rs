//! The keys in hand in this process at this moment, so that a twin is answered without a connection.
//! An entry lives from the look at a key to the end of its claim; nothing else about keys is kept in memory.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, futures::OwnedNotified};

use crate::{
    backend::{Twin, Wanted},
    digest::Digest,
    fingerprint::Print,
};

/// The keys in hand now.
#[derive(Default)]
pub(crate) struct Running {
    keys: Mutex<HashMap<Digest, InHand>>,
}

struct InHand {
    state: State,
    /// Wakes whoever waits for this key to run or to end.
    changed: Arc<Notify>,
}

#[derive(Clone, Copy)]
enum State {
    /// One request asks the database about the key; its twins wait for what it learns instead of asking too.
    Looking,
    /// The database has granted the claim, for this request.
    Running([Print; 2]),
}

/// A key in hand; dropping it lets go.
pub(crate) struct Presence {
    running: Arc<Running>,
    id: Digest,
}

impl InHand {
    /// Made under the lock on the keys, so that no change falls between a look and the wait for the next change.
    fn next_change(&self) -> OwnedNotified {
        Arc::clone(&self.changed).notified_owned()
    }
}

impl Running {
    /// Takes the key in hand, or tells what runs under it. Waits only while another request looks at it.
    pub(crate) async fn enter(self: &Arc<Self>, wanted: &Wanted) -> Result<Presence, Twin> {
        loop {
            let changed = match self.keys().entry(wanted.id) {
                Entry::Vacant(vacant) => {
                    vacant.insert(InHand { state: State::Looking, changed: Arc::default() });
                    return Ok(Presence { running: Arc::clone(self), id: wanted.id });
                }
                Entry::Occupied(occupied) => match occupied.get().state {
                    State::Looking => occupied.get().next_change(),
                    State::Running(prints) => return Err(Twin::of(prints, wanted.prints())),
                },
            };
            changed.await;
        }
    }

    /// Waits until nobody in this process has the key in hand.
    pub(crate) async fn end(&self, wanted: &Wanted) {
        loop {
            let Some(changed) = self.keys().get(&wanted.id).map(InHand::next_change) else { return };
            changed.await;
        }
    }

    /// Whether any key's handler runs here.
    pub(crate) fn any_runs(&self) -> bool {
        self.keys().values().any(|key| matches!(key.state, State::Running(_)))
    }

    pub(crate) fn has(&self, wanted: &Wanted) -> bool {
        self.keys().contains_key(&wanted.id)
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<Digest, InHand>> {
        // Every change is one map operation, so the map is whole whatever panicked.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Presence {
    /// The database has granted the claim: twins are answered from here on.
    pub(crate) fn runs(&self, wanted: &Wanted) {
        if let Some(key) = self.running.keys().get_mut(&self.id) {
            key.state = State::Running(wanted.prints());
            key.changed.notify_waiters();
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let gone = self.running.keys().remove(&self.id);
        if let Some(key) = gone {
            key.changed.notify_waiters();
        }
    }
}

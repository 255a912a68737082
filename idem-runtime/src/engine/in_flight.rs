//! The keys in hand in this process at this moment, so that a twin is answered without a connection.
//! An entry lives from the look at a key to the end of its claim; nothing else about keys is kept in memory.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{Notify, futures::OwnedNotified};

use crate::{
    backend::{Twin, Wanted},
    model::{fingerprint::Print, record_id::RecordId},
};

/// The keys in hand now.
#[derive(Default)]
pub(crate) struct Running {
    keys: Mutex<HashMap<RecordId, InHand>>,
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
    /// The database has granted the claim, for this request, and where it is by a lease, at least until then.
    Running { prints: [Print; 2], leased_until: Option<Instant> },
}

/// What a request meets under its key in this process, or in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Met {
    pub(crate) twin: Twin,
    /// What is left of its lease, if it has one.
    pub(crate) remaining: Option<Duration>,
}

/// A key in hand; dropping it lets go.
pub(crate) struct Presence {
    running: Arc<Running>,
    id: RecordId,
    /// The entry's, by which it is told from the entry of whoever has taken the key over.
    changed: Arc<Notify>,
}

impl InHand {
    fn looking() -> Self {
        Self { state: State::Looking, changed: Arc::default() }
    }

    /// Made under the lock on the keys, so that no change falls between a look and the wait for the next change.
    fn next_change(&self) -> OwnedNotified {
        Arc::clone(&self.changed).notified_owned()
    }
}

impl Running {
    /// Takes the key in hand, or tells what runs under it. Waits only while another request looks at it.
    pub(crate) async fn enter(self: &Arc<Self>, wanted: &Wanted) -> Result<Presence, Met> {
        loop {
            let changed = match self.keys().entry(wanted.id) {
                Entry::Vacant(vacant) => {
                    let changed = Arc::clone(&vacant.insert(InHand::looking()).changed);
                    return Ok(Presence { running: Arc::clone(self), id: wanted.id, changed });
                }
                Entry::Occupied(mut occupied) => match occupied.get().state {
                    State::Looking => occupied.get().next_change(),
                    State::Running { prints, leased_until } => {
                        let remaining = leased_until.map(|until| until.saturating_duration_since(Instant::now()));
                        // What became of the record since the lease ran out, only the database knows.
                        if remaining == Some(Duration::ZERO) {
                            occupied.insert(InHand::looking()).changed.notify_waiters();
                            let changed = Arc::clone(&occupied.get().changed);
                            return Ok(Presence { running: Arc::clone(self), id: wanted.id, changed });
                        }
                        return Err(Met { twin: Twin::of(prints, wanted.prints()), remaining });
                    }
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
        self.keys().values().any(|key| matches!(key.state, State::Running { .. }))
    }

    pub(crate) fn has(&self, wanted: &Wanted) -> bool {
        self.keys().contains_key(&wanted.id)
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<RecordId, InHand>> {
        // Every change is one map operation, so the map is whole whatever panicked.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Presence {
    /// The database has granted the claim, or renewed its lease: twins are answered from here on.
    pub(crate) fn runs(&self, wanted: &Wanted, leased_until: Option<Instant>) {
        if let Some(key) = self.running.keys().get_mut(&self.id)
            && Arc::ptr_eq(&key.changed, &self.changed)
        {
            key.state = State::Running { prints: wanted.prints(), leased_until };
            key.changed.notify_waiters();
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if let Entry::Occupied(occupied) = self.running.keys().entry(self.id)
            && Arc::ptr_eq(&occupied.get().changed, &self.changed)
        {
            occupied.remove();
            self.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::model::{fingerprint::Subject, options::Fingerprint, retention::Retention};

    fn wanted(key: &str, body: &'static str) -> Wanted {
        let (parts, ()) = http::Request::post("/p").body(()).expect("a request").into_parts();
        let body = Bytes::from_static(body.as_bytes());
        let subject = Subject { parts: &parts, uri: &parts.uri, body: &body };
        Wanted {
            id: RecordId::of_attempt_without_key(key.as_bytes()),
            fingerprint: subject.print(Fingerprint::Json),
            bytes: subject.bytes(),
            operation: "pay",
            retention: Retention::DAY,
        }
    }

    #[tokio::test]
    async fn a_twin_waits_for_the_look_and_is_told_what_runs() {
        let running = Arc::new(Running::default());
        let first = running.enter(&wanted("k", "1")).await.unwrap_or_else(|_| panic!("nobody else is there"));
        let twins = [("1", Twin::Same), ("2", Twin::Other)].map(|(body, expected)| {
            let running = Arc::clone(&running);
            let twin = tokio::spawn(async move { running.enter(&wanted("k", body)).await.err() });
            (twin, expected)
        });
        tokio::task::yield_now().await;
        first.runs(&wanted("k", "1"), None);
        for (twin, expected) in twins {
            assert_eq!(twin.await.expect("no panic"), Some(Met { twin: expected, remaining: None }));
        }
    }

    #[tokio::test]
    async fn nothing_is_kept_of_a_key_that_is_not_in_hand() {
        let running = Arc::new(Running::default());
        for number in 0..100 {
            let wanted = wanted(&number.to_string(), "1");
            let presence = running.enter(&wanted).await.unwrap_or_else(|_| panic!("nobody else is there"));
            let waiting = running.end(&wanted);
            presence.runs(&wanted, None);
            drop(presence);
            waiting.await;
        }
        assert!(running.keys().is_empty());
    }
}

//! The keys in hand in this process at this moment, so that a twin is answered without a connection.
//! An entry lives from the look at a key to the end of its claim; nothing else about keys is kept in memory.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{Notify, futures::OwnedNotified};

use crate::{
    backend::{ClaimRequest, Conflict, Duplicate},
    model::{fingerprint::Fingerprint, record_id::RecordId},
};

/// The keys in hand now.
#[derive(Default)]
pub(crate) struct InFlight {
    keys: Mutex<HashMap<RecordId, Slot>>,
}

struct Slot {
    state: State,
    /// Wakes whoever waits for this key to run or to end.
    changed: Arc<Notify>,
}

#[derive(Clone, Copy)]
enum State {
    /// One request asks the database about the key; its twins wait for what it learns instead of asking too.
    Looking,
    /// The database has granted the claim, for this request, and where it is by a lease, at least until then.
    InFlight { fingerprints: [Fingerprint; 2], leased_until: Option<Instant> },
}

/// A key in hand; dropping it lets go.
pub(crate) struct InFlightGuard {
    running: Arc<InFlight>,
    id: RecordId,
    /// The entry's, by which it is told from the entry of whoever has taken the key over.
    changed: Arc<Notify>,
}

impl Slot {
    fn looking() -> Self {
        Self { state: State::Looking, changed: Arc::default() }
    }

    /// Made under the lock on the keys, so that no change falls between a look and the wait for the next change.
    fn next_change(&self) -> OwnedNotified {
        Arc::clone(&self.changed).notified_owned()
    }
}

impl InFlight {
    /// Takes the key in hand, or tells what runs under it. Waits only while another request looks at it.
    pub(crate) async fn enter(self: &Arc<Self>, request: &ClaimRequest) -> Result<InFlightGuard, Conflict> {
        loop {
            let changed = match self.keys().entry(request.id) {
                Entry::Vacant(vacant) => {
                    let changed = Arc::clone(&vacant.insert(Slot::looking()).changed);
                    return Ok(InFlightGuard { running: Arc::clone(self), id: request.id, changed });
                }
                Entry::Occupied(mut occupied) => match occupied.get().state {
                    State::Looking => occupied.get().next_change(),
                    State::InFlight { fingerprints, leased_until } => {
                        let remaining = leased_until.map(|until| until.saturating_duration_since(Instant::now()));
                        // What became of the record since the lease ran out, only the database knows.
                        if remaining == Some(Duration::ZERO) {
                            occupied.insert(Slot::looking()).changed.notify_waiters();
                            let changed = Arc::clone(&occupied.get().changed);
                            return Ok(InFlightGuard { running: Arc::clone(self), id: request.id, changed });
                        }
                        return Err(Conflict {
                            duplicate: Duplicate::of(fingerprints, request.fingerprints()),
                            remaining,
                        });
                    }
                },
            };
            changed.await;
        }
    }

    /// Waits until nobody in this process has the key in hand.
    pub(crate) async fn end(&self, request: &ClaimRequest) {
        loop {
            let Some(changed) = self.keys().get(&request.id).map(Slot::next_change) else { return };
            changed.await;
        }
    }

    /// Whether any key's handler runs here.
    pub(crate) fn any_running(&self) -> bool {
        self.keys().values().any(|key| matches!(key.state, State::InFlight { .. }))
    }

    pub(crate) fn has(&self, request: &ClaimRequest) -> bool {
        self.keys().contains_key(&request.id)
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<RecordId, Slot>> {
        // Every change is one map operation, so the map is whole whatever panicked.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlightGuard {
    /// The database has granted the claim, or renewed its lease: twins are answered from here on.
    pub(crate) fn runs(&self, request: &ClaimRequest, leased_until: Option<Instant>) {
        if let Some(key) = self.running.keys().get_mut(&self.id)
            && Arc::ptr_eq(&key.changed, &self.changed)
        {
            key.state = State::InFlight { fingerprints: request.fingerprints(), leased_until };
            key.changed.notify_waiters();
        }
    }
}

impl Drop for InFlightGuard {
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
    use crate::model::{fingerprint::Subject, options::FingerprintRule, retention::Retention};

    fn request(key: &str, body: &'static str) -> ClaimRequest {
        let (parts, ()) = http::Request::post("/p").body(()).expect("a request").into_parts();
        let body = Bytes::from_static(body.as_bytes());
        let subject = Subject { parts: &parts, uri: &parts.uri, body: &body };
        ClaimRequest {
            id: RecordId::of_attempt_without_key(key.as_bytes()),
            fingerprint: subject.fingerprint(FingerprintRule::Json),
            bytes: subject.fingerprint(FingerprintRule::Bytes),
            operation: "pay",
            retention: Retention::DAY,
        }
    }

    #[tokio::test]
    async fn a_twin_waits_for_the_look_and_is_told_what_runs() {
        let running = Arc::new(InFlight::default());
        let first = running.enter(&request("k", "1")).await.unwrap_or_else(|_| panic!("nobody else is there"));
        let twins = [("1", Duplicate::Same), ("2", Duplicate::Other)].map(|(body, expected)| {
            let running = Arc::clone(&running);
            let twin = tokio::spawn(async move { running.enter(&request("k", body)).await.err() });
            (twin, expected)
        });
        tokio::task::yield_now().await;
        first.runs(&request("k", "1"), None);
        for (twin, expected) in twins {
            assert_eq!(twin.await.expect("no panic"), Some(Conflict { duplicate: expected, remaining: None }));
        }
    }

    #[tokio::test]
    async fn nothing_is_kept_of_a_key_that_is_not_in_hand() {
        let running = Arc::new(InFlight::default());
        for number in 0..100 {
            let request = request(&number.to_string(), "1");
            let guard = running.enter(&request).await.unwrap_or_else(|_| panic!("nobody else is there"));
            let waiting = running.end(&request);
            guard.runs(&request, None);
            drop(guard);
            waiting.await;
        }
        assert!(running.keys().is_empty());
    }
}

//! The keys in flight in this process, so that an in-flight duplicate gets its response without a connection.
//! A slot lives from the look at a key to the end of its claim. Nothing else about keys is kept in memory.

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

/// The keys in flight now.
#[derive(Default)]
pub(crate) struct InFlight {
    keys: Mutex<HashMap<RecordId, Slot>>,
}

struct Slot {
    state: State,
    /// Wakes the requests that wait for this key to run or to end.
    changed: Arc<Notify>,
}

#[derive(Clone, Copy)]
enum State {
    /// One request looks at the key in the database. Others wait for its result instead of looking too.
    Looking,
    /// The database has granted the claim to the request with these fingerprints; a claim by lease, at least until then.
    Running { fingerprints: [Fingerprint; 2], leased_until: Option<Instant> },
}

/// A key in flight. Dropping it removes the slot.
pub(crate) struct InFlightGuard {
    in_flight: Arc<InFlight>,
    id: RecordId,
    /// The slot's own, which distinguishes it from the slot of a request that has taken over the key.
    changed: Arc<Notify>,
}

impl Slot {
    fn looking() -> Self {
        Self { state: State::Looking, changed: Arc::default() }
    }

    /// Called under the lock on the keys, so that no change is missed between a look and the wait for the next change.
    fn next_change(&self) -> OwnedNotified {
        Arc::clone(&self.changed).notified_owned()
    }
}

impl InFlight {
    /// Enters the key, or returns the conflict with the request that runs. Waits only while another request looks at the key.
    pub(crate) async fn enter(self: &Arc<Self>, request: &ClaimRequest) -> Result<InFlightGuard, Conflict> {
        loop {
            let changed = match self.keys().entry(request.id) {
                Entry::Vacant(vacant) => {
                    let changed = Arc::clone(&vacant.insert(Slot::looking()).changed);
                    return Ok(InFlightGuard { in_flight: Arc::clone(self), id: request.id, changed });
                }
                Entry::Occupied(mut occupied) => match occupied.get().state {
                    State::Looking => occupied.get().next_change(),
                    State::Running { fingerprints, leased_until } => {
                        let remaining = leased_until.map(|until| until.saturating_duration_since(Instant::now()));
                        // The lease has run out: only the database knows the record's state.
                        if remaining == Some(Duration::ZERO) {
                            occupied.insert(Slot::looking()).changed.notify_waiters();
                            let changed = Arc::clone(&occupied.get().changed);
                            return Ok(InFlightGuard { in_flight: Arc::clone(self), id: request.id, changed });
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

    /// Waits until the key is not in flight in this process.
    pub(crate) async fn end(&self, request: &ClaimRequest) {
        loop {
            let Some(changed) = self.keys().get(&request.id).map(Slot::next_change) else { return };
            changed.await;
        }
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
    /// The database has granted the claim, or renewed its lease. From here on duplicates get their response from memory.
    pub(crate) fn runs(&self, request: &ClaimRequest, leased_until: Option<Instant>) {
        if let Some(key) = self.in_flight.keys().get_mut(&self.id)
            && Arc::ptr_eq(&key.changed, &self.changed)
        {
            key.state = State::Running { fingerprints: request.fingerprints(), leased_until };
            key.changed.notify_waiters();
        }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        if let Entry::Occupied(occupied) = self.in_flight.keys().entry(self.id)
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
    use crate::{
        backend::{Durability, Session},
        model::{options::FingerprintRule, retention::Retention, subject::Subject},
    };

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
            durability: Durability::OfSession,
            session: Session::AsLeft,
        }
    }

    #[tokio::test]
    async fn a_duplicate_waits_for_the_look_and_gets_the_conflict() {
        let in_flight = Arc::new(InFlight::default());
        let first = in_flight.enter(&request("k", "1")).await.unwrap_or_else(|_| panic!("nobody else is there"));
        let body = request("k", "1").bytes.differences(&request("k", "2").bytes);
        assert_eq!(body.names().collect::<Vec<_>>(), ["body"]);
        let duplicates = [("1", Duplicate::Same), ("2", Duplicate::Other(body))].map(|(body, expected)| {
            let in_flight = Arc::clone(&in_flight);
            let duplicate = tokio::spawn(async move { in_flight.enter(&request("k", body)).await.err() });
            (duplicate, expected)
        });
        tokio::task::yield_now().await;
        first.runs(&request("k", "1"), None);
        for (duplicate, expected) in duplicates {
            assert_eq!(duplicate.await.expect("no panic"), Some(Conflict { duplicate: expected, remaining: None }));
        }
    }

    #[tokio::test]
    async fn nothing_is_kept_of_a_key_that_is_not_in_flight() {
        let in_flight = Arc::new(InFlight::default());
        for number in 0..100 {
            let request = request(&number.to_string(), "1");
            let guard = in_flight.enter(&request).await.unwrap_or_else(|_| panic!("nobody else is there"));
            let waiting = in_flight.end(&request);
            guard.runs(&request, None);
            drop(guard);
            waiting.await;
        }
        assert!(in_flight.keys().is_empty());
    }
}

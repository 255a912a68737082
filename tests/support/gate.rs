//! Order without sleeping: a handler says "I am inside" and stays there until the test lets it go on.
//! Also a counter of executions, which no rollback undoes.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Semaphore;

use crate::soon;

/// A place in a handler. Clones are the same gate: one goes into the handler, one stays with the test.
#[derive(Clone)]
pub struct Gate {
    inside: Arc<Semaphore>,
    free: Arc<Semaphore>,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self { inside: Arc::new(Semaphore::new(0)), free: Arc::new(Semaphore::new(0)) }
    }

    /// For the handler: announces itself, then waits to be let through. Unbounded, since the test decides.
    pub async fn pass(&self) {
        self.inside.add_permits(1);
        if let Ok(pass) = self.free.acquire().await {
            pass.forget();
        }
    }

    /// For the test: waits until one more has arrived at the gate.
    #[track_caller]
    pub fn entered(&self) -> impl Future<Output = ()> + use<> {
        let inside = Arc::clone(&self.inside);
        soon("someone to enter the gate", async move { inside.acquire().await.expect("never closed").forget() })
    }

    /// For the test: lets one through, who is there or comes next.
    pub fn let_one_through(&self) {
        self.free.add_permits(1);
    }

    /// For the test: lets everyone through, now and from now on.
    pub fn open(&self) {
        self.free.close();
    }
}

/// How often a handler's body has begun.
#[derive(Clone, Default)]
pub struct Runs(Arc<AtomicUsize>);

impl Runs {
    /// For the handler: one more.
    pub fn begin(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// For the test.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

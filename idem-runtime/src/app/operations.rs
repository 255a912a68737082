//! A set of operations, for what this process has learned about each: that it was warned of, that it changes its session.
//! Operations are constants of the program, so the set is bounded.

use std::{
    collections::BTreeSet,
    sync::{PoisonError, RwLock},
};

/// Operations of this process.
#[derive(Default)]
pub(crate) struct Operations(RwLock<BTreeSet<&'static str>>);

impl Operations {
    /// Adds an operation. `true` if it was not in the set.
    pub(crate) fn insert(&self, operation: &'static str) -> bool {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(operation)
    }

    pub(crate) fn contains(&self, operation: &str) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(operation)
    }
}

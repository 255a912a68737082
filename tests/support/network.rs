//! Another system, which no transaction of ours is in: it charges once for each key and remembers every call.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use idem_runtime::StepKey;

/// The system. Clones are the same one.
#[derive(Clone, Default)]
pub struct Network(Arc<Mutex<Vec<String>>>);

impl Network {
    pub fn charge(&self, key: StepKey) {
        self.0.lock().unwrap().push(key.to_string());
    }

    pub fn has(&self, key: StepKey) -> bool {
        self.0.lock().unwrap().contains(&key.to_string())
    }

    pub fn calls(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub fn charges(&self) -> usize {
        self.calls().into_iter().collect::<HashSet<_>>().len()
    }
}

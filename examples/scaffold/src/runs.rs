//! How often annotated handlers ran in this process. A replay does not count.
//! The demos and tests read it at `GET /runs`.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use axum::{
    Json,
    extract::{FromRef, State},
    routing::{MethodRouter, get},
};
use serde_json::json;

/// The counter, as a part of the state.
#[derive(Clone, Debug, Default)]
pub struct Runs(Arc<AtomicU64>);

impl Runs {
    /// Counts a run. Call it first in a handler.
    pub fn begin(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// The route `GET /runs`.
    pub fn route<S>() -> MethodRouter<S>
    where
        S: Clone + Send + Sync + 'static,
        Self: FromRef<S>,
    {
        get(async |State(Self(runs)): State<Self>| Json(json!({ "runs": runs.load(Ordering::SeqCst) })))
    }
}

//! The tests are in the folders beside this file; `tests/run` runs them all.

//! What the tests of OpenAPI share: an application's state, and a driver that compares a server with its document.
//! Everything here that fails, panics.

pub mod app;
pub mod declared;
pub mod driver;

//! Handlers as people write them must compile under the attribute and be usable at a `Router`.
//! Nothing here runs: that it compiles, with the state inferred at the route, is the test.
#![deny(warnings)]
#![allow(dead_code, reason = "some shapes are here to compile, not to be routed")]

// As a crate that is renamed in Cargo.toml looks from inside.
extern crate idem_runtime as company_idem;

mod accept {
    mod common;

    mod b100_transactions;
    mod b92_parameters;
    mod b94_debug_handler;
    mod b95_utoipa;
    mod b99_bodies;
    mod beside;
    mod consumers;
    mod external;
    mod groups;
    mod hidden;
    mod options;
    mod renamed;
    mod stacks;
    mod webhooks;
}

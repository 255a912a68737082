//! The example `charges`: what a crash leaves behind when the effect is at a card network, and how it is resolved.
//! Each part is a separate process, killed by SIGKILL at each step of an attempt, on both databases.

mod charges {
    mod cases;
    mod demo;
    mod harness;
    mod killed_postgres;
    mod killed_sqlite;
    mod legacy;
    mod network;
    mod nodes;
    mod paused;
    mod relay;
}

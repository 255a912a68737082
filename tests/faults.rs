//! What breaks under a service: connections at each statement, transactions, servers, clients, disks.
//! In every case the client gets a true response, nothing runs twice, and the service recovers by itself.

mod faults {
    mod aborted;
    mod checks;
    mod commit;
    mod disconnect;
    mod durable;
    mod external;
    mod external_sqlite;
    mod out_of_step;
    mod passing;
    mod sources;
    mod sqlite;
    mod starting;
    mod unavailable;
}

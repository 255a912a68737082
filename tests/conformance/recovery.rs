//! Recovery: dead attempts are decided once, by a reconciler or by hand, and whoever comes back too late changes nothing.
//! Reconcilers stop at gates where two nodes are to meet; leases are ended by the test, in the database.

-- idem, version 1, SQLite 3.35 or later. Safe to run again.
-- The table of records and its index for pruning. Times are milliseconds since 1970, by the database's clock.

CREATE TABLE IF NOT EXISTS idem_schema (
    version    INTEGER PRIMARY KEY,
    applied_at TEXT    NOT NULL DEFAULT CURRENT_TIMESTAMP
);

CREATE TABLE IF NOT EXISTS idem_records (
    id          BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 32), -- digest of scope and key
    operation   TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,                                     -- rule, then digest
    format      INTEGER NOT NULL,                                     -- of headers
    status      INTEGER NOT NULL,
    headers     BLOB    NOT NULL,
    body        BLOB    NOT NULL,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL
);

CREATE INDEX IF NOT EXISTS idem_records_expires_at ON idem_records (expires_at);

INSERT INTO idem_schema (version) VALUES (1) ON CONFLICT DO NOTHING;

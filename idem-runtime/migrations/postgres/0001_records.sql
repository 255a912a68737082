-- idem, version 1, PostgreSQL 13 or later. Safe to run again.
-- The table of records and its index for pruning.

CREATE TABLE IF NOT EXISTS idem_schema (
    version    integer     PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- Sessions keep the plan they made first. Made just after a vacuum has given an emptied table's pages back, that is a
-- sequential scan, kept while the table grows again; so the pages stay.
CREATE TABLE IF NOT EXISTS idem_records (
    id          bytea       PRIMARY KEY CHECK (octet_length(id) = 32), -- digest of scope and key
    operation   text        NOT NULL,
    fingerprint bytea       NOT NULL,                                  -- rule, then digest
    format      smallint    NOT NULL,                                  -- of headers
    status      smallint    NOT NULL,
    headers     bytea       NOT NULL,
    body        bytea       NOT NULL,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL
) WITH (vacuum_truncate = false);

CREATE INDEX IF NOT EXISTS idem_records_expires_at ON idem_records (expires_at);

INSERT INTO idem_schema (version) VALUES (1) ON CONFLICT DO NOTHING;

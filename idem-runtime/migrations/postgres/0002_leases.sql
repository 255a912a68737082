-- idem, version 2, PostgreSQL 13 or later. Safe to run again.
-- Records in progress: the attempt that holds a key while its effects happen elsewhere, and its lease.

ALTER TABLE idem_records
    ADD COLUMN IF NOT EXISTS attempt     bytea CHECK (octet_length(attempt) = 16), -- whose it is; null: completed
    ADD COLUMN IF NOT EXISTS lease_until timestamptz, -- then the recovery may take it
    ADD COLUMN IF NOT EXISTS retention   bigint,      -- in seconds, from the completion on
    ADD COLUMN IF NOT EXISTS asked       integer,     -- how often a reconciler was asked
    ADD COLUMN IF NOT EXISTS last_error  text,        -- why it could not tell
    ADD COLUMN IF NOT EXISTS request     bytea;       -- where the handler stores it

-- A record in progress never expires: its expires_at is 'infinity'.
CREATE INDEX IF NOT EXISTS idem_records_in_progress ON idem_records (operation, lease_until) WHERE attempt IS NOT NULL;

INSERT INTO idem_schema (version) VALUES (2) ON CONFLICT DO NOTHING;

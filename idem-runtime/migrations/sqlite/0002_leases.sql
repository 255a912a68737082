-- idem, version 2, SQLite 3.35 or later. Run once, after version 1: SQLite adds no column twice.
-- Records in progress: the attempt that holds a key while its effects happen elsewhere, and its lease.

ALTER TABLE idem_records ADD COLUMN attempt     BLOB CHECK (length(attempt) = 16); -- whose it is; null: completed
ALTER TABLE idem_records ADD COLUMN lease_until INTEGER; -- then the recovery may take it
ALTER TABLE idem_records ADD COLUMN retention   INTEGER; -- in seconds, from the completion on
ALTER TABLE idem_records ADD COLUMN asked       INTEGER; -- how often a reconciler was asked
ALTER TABLE idem_records ADD COLUMN last_error  TEXT;    -- why it could not tell
ALTER TABLE idem_records ADD COLUMN request     BLOB;    -- where the handler stores it

-- A record in progress never expires: its expires_at is the largest integer.
CREATE INDEX IF NOT EXISTS idem_records_in_progress ON idem_records (operation, lease_until) WHERE attempt IS NOT NULL;

INSERT INTO idem_schema (version) VALUES (2);

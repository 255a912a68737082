-- idem, version 1, PostgreSQL 13 or later. Safe to run again.
-- The table of records, its index for pruning, and the function that claims a key.

CREATE TABLE IF NOT EXISTS idem_schema (
    version    integer     PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);

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
);

CREATE INDEX IF NOT EXISTS idem_records_expires_at ON idem_records (expires_at);

-- Claims a key for the running transaction, without waiting for anyone. `outcome` is one of
--   claimed    the key lock is ours until the transaction ends; `claim_token` names the transaction
--   completed  there is a record, in the other columns
--   same       a transaction that is still open runs this very request
--   other      a transaction that is still open runs another request under this key
--   read_only  nothing can be written here
--
-- Every attempt holds two advisory locks until its transaction ends: the request lock, shared, taken first, and
-- the key lock, exclusive. So whoever finds the key lock taken can read in pg_locks which request its holder runs.
--
-- VOLATILE matters: under READ COMMITTED each statement in here sees what was committed before it began, so the look
-- that follows the lock cannot miss a record that was committed just before the lock was free.
CREATE OR REPLACE FUNCTION idem_claim_v1(key_lock bigint, request_lock bigint, wanted bytea)
RETURNS TABLE (
    outcome            text,
    claim_token        text,
    stored_fingerprint bytea,
    stored_format      smallint,
    stored_status      smallint,
    stored_headers     bytea,
    stored_body        bytea
)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    same boolean;
BEGIN
    IF current_setting('transaction_read_only')::boolean THEN
        outcome := 'read_only';
        RETURN NEXT;
        RETURN;
    END IF;

    -- A completed key needs no lock, so that any number of retries replay at once.
    outcome := 'completed';
    SELECT r.fingerprint, r.format, r.status, r.headers, r.body
      INTO stored_fingerprint, stored_format, stored_status, stored_headers, stored_body
      FROM idem_records r WHERE r.id = wanted AND r.expires_at > clock_timestamp();
    IF FOUND THEN
        RETURN NEXT;
        RETURN;
    END IF;

    PERFORM pg_advisory_xact_lock_shared(request_lock);
    FOR look IN 1..100 LOOP
        IF pg_try_advisory_xact_lock(key_lock) THEN
            outcome := 'claimed';
        ELSE
            -- One scan of pg_locks, because two would not be of one instant.
            SELECT bool_or(l.is_request) INTO same
              FROM (SELECT pid, mode,
                           (classid::bigint << 32) | objid::bigint = key_lock     AS is_key,
                           (classid::bigint << 32) | objid::bigint = request_lock AS is_request
                      FROM pg_locks
                     WHERE locktype = 'advisory' AND granted AND objsubid = 1
                       AND database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())) l
             WHERE l.is_key OR l.is_request
             GROUP BY l.pid
            HAVING bool_or(l.is_key AND l.mode = 'ExclusiveLock');
            outcome := CASE WHEN same THEN 'same' ELSE 'other' END;
            IF NOT FOUND THEN
                -- Its holder ended between the two statements: the lock is free again.
                outcome := 'same';
                CONTINUE;
            END IF;
        END IF;

        -- Ours or not, the one before may just have finished.
        SELECT r.fingerprint, r.format, r.status, r.headers, r.body
          INTO stored_fingerprint, stored_format, stored_status, stored_headers, stored_body
          FROM idem_records r WHERE r.id = wanted AND r.expires_at > clock_timestamp();
        IF FOUND THEN
            outcome := 'completed';
        END IF;
        EXIT;
    END LOOP;

    IF outcome = 'claimed' THEN
        IF NOT has_table_privilege('idem_records', 'INSERT') OR NOT has_table_privilege('idem_records', 'UPDATE') THEN
            RAISE insufficient_privilege USING MESSAGE = 'permission denied for table idem_records';
        END IF;
        claim_token := pg_current_xact_id()::text;
        -- The snapshot of a stricter level is older than the lock, and hides a record committed in between.
        -- Writing over what it shows turns such a record into a serialization failure here, before the body.
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            INSERT INTO idem_records AS r
                   (id, operation, fingerprint, format, status, headers, body, created_at, expires_at)
            VALUES (wanted, '', '', 0, 0, '', '', '-infinity', '-infinity')
            ON CONFLICT (id) DO UPDATE SET expires_at = '-infinity';
        END IF;
    END IF;
    RETURN NEXT;
END
$$;

INSERT INTO idem_schema (version) VALUES (1) ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS jobs (
    number       INTEGER PRIMARY KEY,
    queue        TEXT    NOT NULL,
    message      TEXT    NOT NULL,
    body         TEXT    NOT NULL,
    state        TEXT    NOT NULL DEFAULT 'waiting',
    leased_until BIGINT  NOT NULL DEFAULT 0,
    deliveries   BIGINT  NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS jobs_waiting ON jobs (queue, leased_until) WHERE state = 'waiting';
CREATE TABLE IF NOT EXISTS shipments (
    number   INTEGER PRIMARY KEY,
    queue    TEXT    NOT NULL,
    message  TEXT    NOT NULL,
    quantity BIGINT  NOT NULL
);
CREATE TABLE IF NOT EXISTS stock (
    queue     TEXT   PRIMARY KEY,
    remaining BIGINT NOT NULL
);

CREATE TABLE IF NOT EXISTS charges (
    number    INTEGER PRIMARY KEY,
    id        TEXT    NOT NULL UNIQUE DEFAULT ('ch_' || lower(hex(randomblob(12)))),
    status    TEXT    NOT NULL,
    amount    BIGINT  NOT NULL,
    currency  TEXT    NOT NULL,
    source    TEXT    NOT NULL,
    customer  TEXT,
    reference TEXT,
    key       TEXT    UNIQUE,
    requests  BIGINT  NOT NULL DEFAULT 1
);
CREATE INDEX IF NOT EXISTS charges_reference ON charges (reference);

CREATE TABLE IF NOT EXISTS charges (
    number   INTEGER PRIMARY KEY,
    id       TEXT    NOT NULL UNIQUE,
    account  TEXT    NOT NULL,
    amount   BIGINT  NOT NULL CHECK (amount > 0),
    currency TEXT    NOT NULL,
    source   TEXT    NOT NULL
);
CREATE INDEX IF NOT EXISTS charges_account ON charges (account, number);

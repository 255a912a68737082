CREATE TABLE IF NOT EXISTS payments (
    number      INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    account     TEXT    NOT NULL,
    amount      BIGINT  NOT NULL CHECK (amount > 0),
    currency    TEXT    NOT NULL,
    source      TEXT    NOT NULL,
    status      TEXT    NOT NULL DEFAULT 'succeeded',
    description TEXT
);
CREATE INDEX IF NOT EXISTS payments_account ON payments (account, number);
CREATE TABLE IF NOT EXISTS refunds (
    id          TEXT    PRIMARY KEY,
    payment     TEXT    NOT NULL REFERENCES payments (id),
    amount      BIGINT  NOT NULL,
    currency    TEXT    NOT NULL,
    status      TEXT    NOT NULL DEFAULT 'succeeded'
);

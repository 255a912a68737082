CREATE TABLE IF NOT EXISTS accounts (
    name    TEXT   PRIMARY KEY,
    balance BIGINT NOT NULL
);

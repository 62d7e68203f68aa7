-- The tables of the audit, version 1.

CREATE TABLE audit_version (version integer NOT NULL);
INSERT INTO audit_version VALUES (1);

-- One row for each chain: its last record. Who writes to it holds the row.
CREATE TABLE audit_chains (
    slot   integer PRIMARY KEY,
    chain  text NOT NULL,
    number bigint NOT NULL,
    hash   text NOT NULL
);

-- A line is the record in canonical JSON and its hash, byte for byte as it was hashed.
CREATE TABLE audit_records (
    chain  text NOT NULL,
    number bigint NOT NULL,
    line   bytea NOT NULL,
    PRIMARY KEY (chain, number)
);

CREATE TABLE audit_people (
    name    text PRIMARY KEY,
    person  text NOT NULL,
    address text NOT NULL,
    salt    text NOT NULL
);
CREATE INDEX audit_people_by_person ON audit_people (person, address);

CREATE TABLE audit_values (
    name  text PRIMARY KEY,
    value text NOT NULL
);

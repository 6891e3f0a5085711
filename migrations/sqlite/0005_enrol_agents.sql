-- Who agents are: authorities that sign their certificates, tokens by which they join, and the certificates.

CREATE TABLE authorities (
    -- SHA-256 of the certificate, in hexadecimal
    fingerprint TEXT PRIMARY KEY CHECK (length(fingerprint) = 64),
    certificate TEXT NOT NULL,
    -- under the orchestrators' secret
    sealed_key  BLOB NOT NULL,
    created_us  INTEGER NOT NULL,
    -- no longer trusted
    retired_us  INTEGER
) STRICT;

CREATE TABLE join_tokens (
    sha256       BLOB PRIMARY KEY CHECK (length(sha256) = 32),
    point        TEXT NOT NULL REFERENCES points (name),
    -- accelerators that the site may ever report; null: as many as it has
    most_devices INTEGER CHECK (most_devices >= 0),
    created_us   INTEGER NOT NULL,
    expires_us   INTEGER NOT NULL,
    used_us      INTEGER
) STRICT;

CREATE TABLE certificates (
    serial       TEXT PRIMARY KEY CHECK (length(serial) = 32),
    point        TEXT NOT NULL REFERENCES points (name),
    most_devices INTEGER CHECK (most_devices >= 0),
    issued_us    INTEGER NOT NULL,
    expires_us   INTEGER NOT NULL,
    revoked_us   INTEGER
) STRICT;
CREATE INDEX certificates_by_point ON certificates (point, issued_us);
CREATE INDEX certificates_revoked ON certificates (expires_us) WHERE revoked_us IS NOT NULL;

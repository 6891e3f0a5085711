-- Who is let in: tenants with what they may hold, tokens with their roles, and what administrators did.

CREATE TABLE tenants (
    name              TEXT PRIMARY KEY,
    created_us        INTEGER NOT NULL,
    -- nothing new is taken from a closed tenant, and none of its tokens opens anything
    closed_us         INTEGER,
    -- null: as many as there are
    most_accelerators INTEGER CHECK (most_accelerators >= 0),
    most_orders       INTEGER CHECK (most_orders >= 0),
    most_quotes       INTEGER CHECK (most_quotes >= 0)
) STRICT;
INSERT INTO tenants (name, created_us)
SELECT tenant, min(at_us) FROM (
    SELECT tenant, created_us AS at_us FROM orders
    UNION ALL SELECT tenant, created_us FROM quotes
    UNION ALL SELECT subject, created_us FROM tokens WHERE kind IN ('tenant', 'admin')
) known GROUP BY tenant;
CREATE INDEX orders_live_by_tenant ON orders (tenant)
    WHERE state IN ('acknowledged', 'pending', 'held', 'inProgress', 'cancelling');

ALTER TABLE tokens RENAME TO former_tokens;
CREATE TABLE tokens (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    sha256     BLOB NOT NULL UNIQUE CHECK (length(sha256) = 32),
    role       TEXT NOT NULL CHECK (role IN ('viewer', 'member', 'tenant-admin', 'site-operator', 'platform-admin', 'agent')),
    tenant     TEXT REFERENCES tenants (name),
    -- JSON
    sites      TEXT,
    point      TEXT,
    created_us INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires_us INTEGER,
    revoked_us INTEGER,
    CHECK ((role IN ('viewer', 'member', 'tenant-admin', 'platform-admin')) = (tenant IS NOT NULL)),
    CHECK ((role = 'site-operator') = (sites IS NOT NULL)),
    CHECK ((role = 'agent') = (point IS NOT NULL))
) STRICT;
INSERT INTO tokens (id, sha256, role, tenant, point, created_us, created_by, expires_us)
SELECT randomblob(16), sha256, CASE kind WHEN 'admin' THEN 'platform-admin' WHEN 'tenant' THEN 'member' ELSE 'agent' END,
       CASE WHEN kind <> 'agent' THEN subject END, CASE WHEN kind = 'agent' THEN subject END, created_us, 'unknown', expires_us
FROM former_tokens;
DROP TABLE former_tokens;
CREATE INDEX tokens_by_tenant ON tokens (tenant, id);

CREATE TRIGGER tokens_revoked_stay_so BEFORE UPDATE ON tokens FOR EACH ROW
    WHEN OLD.revoked_us IS NOT NULL AND NEW.revoked_us IS NOT OLD.revoked_us
BEGIN
    SELECT RAISE(ABORT, 'a revoked token stays so');
END;

-- Only grows. Secrets are never in it.
CREATE TABLE audit_log (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    at_us  INTEGER NOT NULL,
    -- a token's id, or what else acted
    actor  TEXT NOT NULL,
    role   TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    -- whom it concerns, if one
    tenant TEXT,
    -- JSON
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX audit_log_by_tenant ON audit_log (tenant, seq);
CREATE TRIGGER audit_log_is_not_changed BEFORE UPDATE ON audit_log FOR EACH ROW
BEGIN
    SELECT RAISE(ABORT, 'the audit log only grows');
END;
CREATE TRIGGER audit_log_is_not_shortened BEFORE DELETE ON audit_log FOR EACH ROW
BEGIN
    SELECT RAISE(ABORT, 'the audit log only grows');
END;

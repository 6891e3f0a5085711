-- Who is let in: tenants with what they may hold, tokens with their roles, and what administrators did.

CREATE TABLE tenants (
    name              TEXT PRIMARY KEY,
    created_us        BIGINT NOT NULL,
    -- nothing new is taken from a closed tenant, and none of its tokens opens anything
    closed_us         BIGINT,
    -- null: as many as there are
    most_accelerators BIGINT CHECK (most_accelerators >= 0),
    most_orders       BIGINT CHECK (most_orders >= 0),
    most_quotes       BIGINT CHECK (most_quotes >= 0)
);
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
    id         UUID PRIMARY KEY,
    sha256     BYTEA NOT NULL CONSTRAINT tokens_hash UNIQUE CHECK (length(sha256) = 32),
    role       TEXT NOT NULL CHECK (role IN ('viewer', 'member', 'tenant-admin', 'site-operator', 'platform-admin', 'agent')),
    tenant     TEXT REFERENCES tenants (name),
    -- JSON
    sites      TEXT,
    point      TEXT,
    created_us BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    expires_us BIGINT,
    revoked_us BIGINT,
    CHECK ((role IN ('viewer', 'member', 'tenant-admin', 'platform-admin')) = (tenant IS NOT NULL)),
    CHECK ((role = 'site-operator') = (sites IS NOT NULL)),
    CHECK ((role = 'agent') = (point IS NOT NULL))
);
INSERT INTO tokens (id, sha256, role, tenant, point, created_us, created_by, expires_us)
SELECT gen_random_uuid(), sha256, CASE kind WHEN 'admin' THEN 'platform-admin' WHEN 'tenant' THEN 'member' ELSE 'agent' END,
       CASE WHEN kind <> 'agent' THEN subject END, CASE WHEN kind = 'agent' THEN subject END, created_us, 'unknown', expires_us
FROM former_tokens;
DROP TABLE former_tokens;
CREATE INDEX tokens_by_tenant ON tokens (tenant, id);

CREATE FUNCTION refuse_revival_of_token() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'token % was revoked and stays so', OLD.id USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER tokens_revoked_stay_so BEFORE UPDATE ON tokens FOR EACH ROW
    WHEN (OLD.revoked_us IS NOT NULL AND NEW.revoked_us IS DISTINCT FROM OLD.revoked_us)
    EXECUTE FUNCTION refuse_revival_of_token();

-- Only grows. Secrets are never in it.
CREATE TABLE audit_log (
    seq    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_us  BIGINT NOT NULL,
    -- a token's id, or what else acted
    actor  TEXT NOT NULL,
    role   TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    -- whom it concerns, if one
    tenant TEXT,
    -- JSON
    detail TEXT NOT NULL
);
CREATE INDEX audit_log_by_tenant ON audit_log (tenant, seq);
CREATE FUNCTION refuse_change_of_audit_log() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log only grows' USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER audit_log_only_grows BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW
    EXECUTE FUNCTION refuse_change_of_audit_log();
CREATE TRIGGER audit_log_is_not_emptied BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT
    EXECUTE FUNCTION refuse_change_of_audit_log();

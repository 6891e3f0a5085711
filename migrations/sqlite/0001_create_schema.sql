-- Times are microseconds since 1970 (UTC), names end in their unit, documents are JSON text.
-- STRICT: a column holds nothing but its type; identifiers are the 16 bytes of their UUID.
-- What must never be wrong is forbidden here, whatever the program does: over-full devices, nodes and links,
-- a final state that changes, an event number used twice, a fact billed twice.

CREATE TABLE leadership (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    epoch INTEGER NOT NULL CHECK (epoch >= 0)
) STRICT;
INSERT INTO leadership (one, epoch) VALUES (1, 0);

CREATE TABLE orders (
    id          BLOB PRIMARY KEY,
    tenant      TEXT NOT NULL,
    name        TEXT NOT NULL,
    document    TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('acknowledged', 'rejected', 'pending', 'held', 'inProgress', 'completed',
                                               'partial', 'failed', 'cancelling', 'cancelled')),
    phase       TEXT,
    attention   TEXT,
    reasons     TEXT NOT NULL,
    plan        TEXT,
    cost        TEXT,
    saga        TEXT,
    quote_id    BLOB,
    generation  INTEGER NOT NULL CHECK (generation >= 0),
    version     INTEGER NOT NULL,
    -- events written so far: the next one is numbered by it, under this row's lock
    events      INTEGER NOT NULL DEFAULT 0 CHECK (events >= 0),
    created_us  INTEGER NOT NULL,
    updated_us  INTEGER NOT NULL,
    traceparent TEXT
) STRICT;
CREATE INDEX orders_by_tenant ON orders (tenant, id);
CREATE INDEX orders_by_state ON orders (state, id);

CREATE TRIGGER orders_final_is_final BEFORE UPDATE OF state ON orders FOR EACH ROW
    WHEN OLD.state IN ('rejected', 'completed', 'partial', 'failed', 'cancelled') AND NEW.state <> OLD.state
BEGIN
    SELECT RAISE(ABORT, 'a final state may not change');
END;

CREATE TABLE decisions (
    order_id BLOB PRIMARY KEY REFERENCES orders (id),
    at_us    INTEGER NOT NULL,
    body     TEXT NOT NULL,
    view     TEXT NOT NULL
) STRICT;

CREATE TABLE events (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    order_id BLOB NOT NULL REFERENCES orders (id),
    tenant   TEXT NOT NULL,
    number   INTEGER NOT NULL CHECK (number >= 1),
    at_us    INTEGER NOT NULL,
    kind     TEXT NOT NULL,
    phase    TEXT,
    message  TEXT NOT NULL,
    detail   TEXT NOT NULL,
    UNIQUE (order_id, number)
) STRICT;

CREATE TABLE quotes (
    id         BLOB PRIMARY KEY,
    tenant     TEXT NOT NULL,
    document   TEXT NOT NULL,
    plan       TEXT,
    decided_us INTEGER NOT NULL,
    decision   TEXT NOT NULL,
    view       TEXT NOT NULL,
    binding    INTEGER NOT NULL CHECK (binding IN (0, 1)),
    created_us INTEGER NOT NULL,
    expires_us INTEGER NOT NULL,
    ended_us   INTEGER,
    order_id   BLOB REFERENCES orders (id),
    CHECK (order_id IS NULL OR ended_us IS NOT NULL)
) STRICT;
CREATE INDEX quotes_live ON quotes (ended_us, id);

CREATE TABLE points (
    name     TEXT PRIMARY KEY,
    draining INTEGER NOT NULL DEFAULT 0 CHECK (draining IN (0, 1))
) STRICT;

CREATE TABLE reports (
    point    TEXT PRIMARY KEY REFERENCES points (name),
    boot     BLOB NOT NULL,
    seq      INTEGER NOT NULL CHECK (seq >= 0),
    heard_us INTEGER NOT NULL
) STRICT;

-- a delayed report of a former boot must not pass for a new one
CREATE TABLE former_boots (
    point TEXT NOT NULL REFERENCES points (name),
    boot  BLOB NOT NULL,
    PRIMARY KEY (point, boot)
) STRICT;

CREATE TABLE nodes (
    site              TEXT NOT NULL REFERENCES points (name),
    node              TEXT NOT NULL,
    body              TEXT NOT NULL,
    -- false: no longer reported, kept because something is still held on it
    present           INTEGER NOT NULL CHECK (present IN (0, 1)),
    cpu_milli         INTEGER NOT NULL CHECK (cpu_milli >= 0),
    memory_bytes      INTEGER NOT NULL CHECK (memory_bytes >= 0),
    cpu_used_milli    INTEGER NOT NULL DEFAULT 0 CHECK (cpu_used_milli >= 0),
    memory_used_bytes INTEGER NOT NULL DEFAULT 0 CHECK (memory_used_bytes >= 0),
    PRIMARY KEY (site, node)
) STRICT;

-- Not a CHECK: a node may come back smaller than what is held on it. What is held stays; nothing is added.
CREATE TRIGGER nodes_not_over_full BEFORE UPDATE OF cpu_used_milli, memory_used_bytes ON nodes FOR EACH ROW
    WHEN (NEW.cpu_used_milli > OLD.cpu_used_milli AND NEW.cpu_used_milli > NEW.cpu_milli)
      OR (NEW.memory_used_bytes > OLD.memory_used_bytes AND NEW.memory_used_bytes > NEW.memory_bytes)
BEGIN
    SELECT RAISE(ABORT, 'node is over-full');
END;
CREATE TRIGGER nodes_begin_empty BEFORE INSERT ON nodes FOR EACH ROW
    WHEN NEW.cpu_used_milli > NEW.cpu_milli OR NEW.memory_used_bytes > NEW.memory_bytes
BEGIN
    SELECT RAISE(ABORT, 'node is over-full');
END;

-- One row per device that something is held on. A whole device is 1000 thousandths of it.
CREATE TABLE device_use (
    site              TEXT NOT NULL,
    node              TEXT NOT NULL,
    device            INTEGER NOT NULL CHECK (device >= 0),
    used_permille     INTEGER NOT NULL CHECK (used_permille BETWEEN 0 AND 1000),
    -- of the device, when something was last given on it
    memory_bytes      INTEGER NOT NULL CHECK (memory_bytes >= 0),
    used_memory_bytes INTEGER NOT NULL CHECK (used_memory_bytes >= 0),
    PRIMARY KEY (site, node, device),
    FOREIGN KEY (site, node) REFERENCES nodes (site, node),
    CHECK (used_memory_bytes <= memory_bytes)
) STRICT;

CREATE TABLE links (
    id            TEXT PRIMARY KEY,
    capacity_kbps INTEGER NOT NULL,
    reserved_kbps INTEGER NOT NULL DEFAULT 0,
    CHECK (0 <= reserved_kbps AND reserved_kbps <= capacity_kbps)
) STRICT;

CREATE TABLE replica_holds (
    holder_kind         TEXT NOT NULL CHECK (holder_kind IN ('order', 'quote')),
    holder              BLOB NOT NULL,
    generation          INTEGER NOT NULL CHECK (generation >= 0),
    component           TEXT NOT NULL,
    replica             INTEGER NOT NULL CHECK (replica >= 0),
    site                TEXT NOT NULL,
    node                TEXT NOT NULL,
    devices             TEXT NOT NULL,
    share_permille      INTEGER NOT NULL CHECK (share_permille BETWEEN 1 AND 1000),
    device_memory_bytes INTEGER NOT NULL CHECK (device_memory_bytes >= 0),
    cpu_milli           INTEGER NOT NULL CHECK (cpu_milli >= 0),
    memory_bytes        INTEGER NOT NULL CHECK (memory_bytes >= 0),
    PRIMARY KEY (holder_kind, holder, generation, component, replica),
    FOREIGN KEY (site, node) REFERENCES nodes (site, node)
) STRICT;
CREATE INDEX replica_holds_by_node ON replica_holds (site, node);

CREATE TABLE link_holds (
    holder_kind TEXT NOT NULL CHECK (holder_kind IN ('order', 'quote')),
    holder      BLOB NOT NULL,
    generation  INTEGER NOT NULL CHECK (generation >= 0),
    link        TEXT NOT NULL REFERENCES links (id),
    rate_kbps   INTEGER NOT NULL CHECK (rate_kbps > 0),
    PRIMARY KEY (holder_kind, holder, generation, link)
) STRICT;

CREATE TABLE usage (
    position       INTEGER PRIMARY KEY AUTOINCREMENT,
    order_id       BLOB NOT NULL REFERENCES orders (id),
    generation     INTEGER NOT NULL CHECK (generation >= 0),
    kind           TEXT NOT NULL,
    item           TEXT NOT NULL,
    subject        TEXT NOT NULL,
    quantity_micro INTEGER NOT NULL CHECK (quantity_micro >= 0),
    cost_micros    INTEGER NOT NULL,
    UNIQUE (order_id, generation, kind, item, subject)
) STRICT;

CREATE TABLE log_totals (
    order_id  BLOB PRIMARY KEY REFERENCES orders (id),
    bytes     INTEGER NOT NULL CHECK (bytes >= 0),
    truncated INTEGER NOT NULL CHECK (truncated IN (0, 1))
) STRICT;

CREATE TABLE log_chunks (
    order_id       BLOB NOT NULL REFERENCES orders (id),
    -- of the first byte, in all that the order's replicas have written, as it arrived
    position_bytes INTEGER NOT NULL CHECK (position_bytes >= 0),
    generation     INTEGER NOT NULL,
    component      TEXT NOT NULL,
    replica        INTEGER NOT NULL,
    offset_bytes   INTEGER NOT NULL CHECK (offset_bytes >= 0),
    length_bytes   INTEGER NOT NULL CHECK (length_bytes > 0),
    text           TEXT NOT NULL,
    PRIMARY KEY (order_id, position_bytes),
    UNIQUE (order_id, generation, component, replica, offset_bytes)
) STRICT;

CREATE TABLE idempotency (
    tenant      TEXT NOT NULL,
    key         TEXT NOT NULL,
    body_sha256 BLOB NOT NULL CHECK (length(body_sha256) = 32),
    status      INTEGER CHECK (status BETWEEN 100 AND 599),
    answer      TEXT,
    at_us       INTEGER NOT NULL,
    PRIMARY KEY (tenant, key),
    CHECK ((status IS NULL) = (answer IS NULL))
) STRICT;
CREATE INDEX idempotency_by_age ON idempotency (at_us);

CREATE TABLE tokens (
    sha256     BLOB PRIMARY KEY CHECK (length(sha256) = 32),
    kind       TEXT NOT NULL CHECK (kind IN ('tenant', 'admin', 'agent')),
    subject    TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    expires_us INTEGER
) STRICT;

-- Numbers of tunnels in the points' kernels. A number names the tunnel's network (VNI), its link, its routing table and the
-- place of its rules, so that each of them is unique as long as the number is.

CREATE TABLE tunnels (
    number     INTEGER PRIMARY KEY CHECK (number BETWEEN 1 AND 16777215),
    order_id   BLOB NOT NULL REFERENCES orders (id),
    generation INTEGER NOT NULL CHECK (generation >= 0),
    leg        INTEGER NOT NULL CHECK (leg >= 0),
    path       INTEGER NOT NULL CHECK (path >= 0),
    -- of the path, where each link has a tunnel of its own
    hop        INTEGER NOT NULL CHECK (hop >= 0),
    -- where something of it may be: JSON
    points     TEXT NOT NULL,
    UNIQUE (order_id, generation, leg, path, hop)
) STRICT;

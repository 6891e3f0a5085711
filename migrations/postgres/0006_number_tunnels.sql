-- Numbers of tunnels in the points' kernels. A number names the tunnel's network (VNI), its link, its routing table and the
-- place of its rules, so that each of them is unique as long as the number is.

CREATE TABLE tunnels (
    number     BIGINT PRIMARY KEY CHECK (number BETWEEN 1 AND 16777215),
    order_id   UUID NOT NULL REFERENCES orders (id),
    generation BIGINT NOT NULL CHECK (generation >= 0),
    leg        BIGINT NOT NULL CHECK (leg >= 0),
    path       BIGINT NOT NULL CHECK (path >= 0),
    -- of the path, where each link has a tunnel of its own
    hop        BIGINT NOT NULL CHECK (hop >= 0),
    -- where something of it may be: JSON
    points     TEXT NOT NULL,
    UNIQUE (order_id, generation, leg, path, hop)
);

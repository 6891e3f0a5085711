-- What probes said of each directed link, minute by minute, for a limited time.

CREATE TABLE link_windows (
    link       TEXT NOT NULL REFERENCES links (id),
    -- end of the window
    at_us      INTEGER NOT NULL,
    window_us  INTEGER NOT NULL CHECK (window_us > 0),
    sent       INTEGER NOT NULL CHECK (sent >= 0),
    received   INTEGER NOT NULL CHECK (received >= 0),
    -- round trips; null where nothing was received
    rtt_min_us INTEGER,
    rtt_p50_us INTEGER,
    rtt_p95_us INTEGER,
    rtt_p99_us INTEGER,
    -- of the way there, of probes whose fate is known
    loss_ppm   INTEGER CHECK (loss_ppm BETWEEN 0 AND 1000000),
    PRIMARY KEY (link, at_us)
) STRICT;
CREATE INDEX link_windows_by_age ON link_windows (at_us);

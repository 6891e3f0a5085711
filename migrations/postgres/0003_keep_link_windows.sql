-- What probes said of each directed link, minute by minute, for a limited time.

CREATE TABLE link_windows (
    link       TEXT NOT NULL REFERENCES links (id),
    -- end of the window
    at_us      BIGINT NOT NULL,
    window_us  BIGINT NOT NULL CHECK (window_us > 0),
    sent       BIGINT NOT NULL CHECK (sent >= 0),
    received   BIGINT NOT NULL CHECK (received >= 0),
    -- round trips; null where nothing was received
    rtt_min_us BIGINT,
    rtt_p50_us BIGINT,
    rtt_p95_us BIGINT,
    rtt_p99_us BIGINT,
    -- of the way there, of probes whose fate is known
    loss_ppm   BIGINT CHECK (loss_ppm BETWEEN 0 AND 1000000),
    PRIMARY KEY (link, at_us)
);
CREATE INDEX link_windows_by_age ON link_windows (at_us);

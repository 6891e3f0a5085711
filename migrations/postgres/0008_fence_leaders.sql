-- Who leads, until when by this server's clock, and how long a lease is. Microseconds. No holder: nobody has a lease.
ALTER TABLE leadership
    ADD COLUMN holder   UUID,
    ADD COLUMN ends     BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN duration BIGINT NOT NULL DEFAULT 0 CHECK (duration >= 0);

-- This server's time now, also within a transaction.
CREATE FUNCTION lead_now() RETURNS BIGINT LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT
$$;

-- Called in one message with COMMIT: who does not lead any more commits nothing. The lock keeps a new epoch out until the
-- transaction has ended, and because a client that is frozen cannot be between the two, nobody waits for one.
CREATE FUNCTION lead_fence(led BIGINT) RETURNS VOID LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(5928000000000000001);
    IF NOT EXISTS (SELECT FROM leadership WHERE one = 1 AND epoch = led) THEN
        RAISE EXCEPTION 'epoch % is over', led USING ERRCODE = 'RHF01';
    END IF;
END
$$;

-- The new epoch, or NULL where another's lease lives. One that ends later than a lease can was given before the clock was
-- set back: it is over. `seize`: whoever leads.
CREATE FUNCTION lead_take(who UUID, lease BIGINT, seize BOOLEAN) RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    taken BIGINT;
BEGIN
    -- without the lock first: who stands by asks often
    PERFORM FROM leadership l
        WHERE l.one = 1 AND (seize OR l.holder IS NULL OR l.ends <= lead_now() OR l.ends > lead_now() + l.duration);
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(5928000000000000001);
    UPDATE leadership l
        SET epoch = l.epoch + 1, holder = who, ends = lead_now() + lease, duration = lease
        WHERE l.one = 1 AND (seize OR l.holder IS NULL OR l.ends <= lead_now() OR l.ends > lead_now() + l.duration)
        RETURNING l.epoch INTO taken;
    -- what a frozen leader has locked must not wait for it; these transactions could not end well any more
    PERFORM pg_terminate_backend(a.pid) FROM pg_stat_activity a
        WHERE a.datname = current_database() AND a.usename = current_user AND a.application_name = 'rhumb'
        AND a.pid <> pg_backend_pid() AND a.state = 'idle in transaction' AND a.state_change < now() - INTERVAL '1 second';
    RETURN taken;
END
$$;

-- Who leads, until when by this machine's clock, and how long a lease is. Microseconds. No holder: nobody has a lease.
ALTER TABLE leadership ADD COLUMN holder BLOB;
ALTER TABLE leadership ADD COLUMN ends INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leadership ADD COLUMN duration INTEGER NOT NULL DEFAULT 0 CHECK (duration >= 0);

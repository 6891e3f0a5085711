-- Link capacity in time. What is held for a while is counted in slots of 15 minutes since 1970, what is held for good in
-- links.reserved_kbps; links.peak_kbps is the most that a slot from the present one on holds, so that one comparison
-- forbids an over-full link, now and later.

ALTER TABLE links ADD COLUMN peak_kbps INTEGER NOT NULL DEFAULT 0 CHECK (peak_kbps >= 0);
CREATE TRIGGER links_not_over_full BEFORE UPDATE ON links FOR EACH ROW
    WHEN NEW.reserved_kbps + NEW.peak_kbps > NEW.capacity_kbps
BEGIN
    SELECT RAISE(ABORT, 'link is over-full');
END;

CREATE TABLE link_slots (
    link          TEXT NOT NULL REFERENCES links (id),
    slot          INTEGER NOT NULL CHECK (slot >= 0),
    reserved_kbps INTEGER NOT NULL CHECK (reserved_kbps >= 0),
    PRIMARY KEY (link, slot)
) STRICT;
CREATE INDEX link_slots_by_time ON link_slots (slot);
CREATE TRIGGER link_slots_below_the_peak BEFORE INSERT ON link_slots FOR EACH ROW
    WHEN NEW.reserved_kbps > (SELECT peak_kbps FROM links WHERE id = NEW.link)
BEGIN
    SELECT RAISE(ABORT, 'slot holds more than the peak of its link');
END;
CREATE TRIGGER link_slots_stay_below_the_peak BEFORE UPDATE ON link_slots FOR EACH ROW
    WHEN NEW.reserved_kbps > OLD.reserved_kbps AND NEW.reserved_kbps > (SELECT peak_kbps FROM links WHERE id = NEW.link)
BEGIN
    SELECT RAISE(ABORT, 'slot holds more than the peak of its link');
END;

-- from first_slot up to, not including, end_slot; 0 and 0: for good
CREATE TABLE link_holds_in_time (
    holder_kind TEXT NOT NULL CHECK (holder_kind IN ('order', 'quote')),
    holder      BLOB NOT NULL,
    generation  INTEGER NOT NULL CHECK (generation >= 0),
    link        TEXT NOT NULL REFERENCES links (id),
    first_slot  INTEGER NOT NULL DEFAULT 0 CHECK (first_slot >= 0),
    end_slot    INTEGER NOT NULL DEFAULT 0,
    rate_kbps   INTEGER NOT NULL CHECK (rate_kbps > 0),
    PRIMARY KEY (holder_kind, holder, generation, link, first_slot, end_slot),
    CHECK (end_slot > first_slot OR (first_slot = 0 AND end_slot = 0))
) STRICT;
INSERT INTO link_holds_in_time (holder_kind, holder, generation, link, rate_kbps)
    SELECT holder_kind, holder, generation, link, rate_kbps FROM link_holds;
DROP TABLE link_holds;
ALTER TABLE link_holds_in_time RENAME TO link_holds;

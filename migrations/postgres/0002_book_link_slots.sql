-- Link capacity in time. What is held for a while is counted in slots of 15 minutes since 1970, what is held for good in
-- links.reserved_kbps; links.peak_kbps is the most that a slot from the present one on holds, so that one comparison
-- forbids an over-full link, now and later.

ALTER TABLE links
    ADD COLUMN peak_kbps BIGINT NOT NULL DEFAULT 0 CHECK (peak_kbps >= 0),
    ADD CONSTRAINT links_not_over_full CHECK (reserved_kbps + peak_kbps <= capacity_kbps);

CREATE TABLE link_slots (
    link          TEXT NOT NULL REFERENCES links (id),
    slot          BIGINT NOT NULL CHECK (slot >= 0),
    reserved_kbps BIGINT NOT NULL CHECK (reserved_kbps >= 0),
    PRIMARY KEY (link, slot)
);
CREATE INDEX link_slots_by_time ON link_slots (slot);
CREATE FUNCTION refuse_slot_above_peak() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.reserved_kbps > (SELECT peak_kbps FROM links WHERE id = NEW.link) THEN
        RAISE EXCEPTION 'slot % holds more than the peak of link %', NEW.slot, NEW.link USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER link_slots_below_the_peak BEFORE INSERT ON link_slots FOR EACH ROW
    EXECUTE FUNCTION refuse_slot_above_peak();
CREATE TRIGGER link_slots_stay_below_the_peak BEFORE UPDATE ON link_slots FOR EACH ROW
    WHEN (NEW.reserved_kbps > OLD.reserved_kbps) EXECUTE FUNCTION refuse_slot_above_peak();

-- from first_slot up to, not including, end_slot; 0 and 0: for good
ALTER TABLE link_holds
    ADD COLUMN first_slot BIGINT NOT NULL DEFAULT 0 CHECK (first_slot >= 0),
    ADD COLUMN end_slot BIGINT NOT NULL DEFAULT 0,
    ADD CHECK (end_slot > first_slot OR (first_slot = 0 AND end_slot = 0)),
    DROP CONSTRAINT link_holds_pkey,
    ADD PRIMARY KEY (holder_kind, holder, generation, link, first_slot, end_slot);

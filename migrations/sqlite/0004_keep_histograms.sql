-- Windows of links are kept with their histograms, which add up; without them percentiles of longer times cannot be told.

DELETE FROM link_windows;
-- JSON: counts and histograms as the probers write them down
ALTER TABLE link_windows ADD COLUMN record TEXT NOT NULL DEFAULT '{}';

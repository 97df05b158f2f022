-- A fact that was merged from several documents has a source for each of them, with the members it is the source of. A
-- fact that was read from a document has a source without members: all of them are from there.
ALTER TABLE fact_sources ADD COLUMN members text[];

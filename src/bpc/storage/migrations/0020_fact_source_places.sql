-- Where in the document each member of a fact is, if that is not the place of the fact and the name of the member; and
-- the members that are there but could not be read, each with its place and the reason.
ALTER TABLE fact_sources ADD COLUMN member_places jsonb;
ALTER TABLE fact_sources ADD COLUMN unreadable jsonb;

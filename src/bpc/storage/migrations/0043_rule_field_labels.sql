-- What fields of rules are, for people: versions of rules that say nothing of it have none.

ALTER TABLE rule_fields ADD COLUMN label text;
ALTER TABLE rule_fields ADD COLUMN point text;
ALTER TABLE rule_fields ADD COLUMN citation text;

-- The name of the file that was sent with a statement: the same bytes may be sent under several names.
ALTER TABLE document_statements ADD COLUMN file_name text CHECK (file_name <> '');

"""Files of pages, served as they are."""

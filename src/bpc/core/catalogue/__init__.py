"""Numbers and days as each official language of the EU writes them. Pure."""

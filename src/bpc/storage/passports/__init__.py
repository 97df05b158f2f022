"""Products and passports: versions, what a compile reads, compile runs, exports and bundles."""

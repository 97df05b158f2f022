"""The status of passport versions, as signed documents that anybody can fetch: lists of bits, and statements."""

"""Routes about single batteries: how they are identified, registered, read out, and what becomes of them."""

"""The example battery of `bpc demo`: what its suppliers sent, and the rules for its passport."""

"""The reference evaluator: small, plain, and without a line of the production one. `derive` in derive.py."""

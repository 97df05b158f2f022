"""What is true: pure functions over frozen values. No clock, disk, network, database or randomness."""

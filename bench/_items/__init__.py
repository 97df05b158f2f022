"""Parts of the measurement of batteries: what processes take, and samples of what was issued."""

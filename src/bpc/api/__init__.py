"""The API: requests over HTTP and GraphQL in, steps of the pipeline and queries behind them."""

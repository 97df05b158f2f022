"""The API: HTTP and GraphQL in, steps of the pipeline or tables out."""

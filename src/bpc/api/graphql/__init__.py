"""GraphQL: the schema, its types made from the REST models, and the limits of a query."""

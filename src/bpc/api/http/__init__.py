"""HTTP: the application and its server, requests and answers, errors, OpenAPI, health and metrics."""

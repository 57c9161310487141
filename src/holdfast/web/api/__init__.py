"""The read API under `/api/v1`: the documents of the public contract, described by an OpenAPI document."""

"""Claude Desktop: it runs no hooks and is not captured; it can be told of the MCP server."""

"""Claude Desktop: it runs no hooks; it can be given the MCP server."""

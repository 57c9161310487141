"""The MCP server: agents keep their own sessions through it. It asks the keeper and answers; it decides nothing."""

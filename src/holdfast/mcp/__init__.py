"""The MCP server: agents keep their own sessions through it. It has no rules of its own."""

"""The MCP server: agents record their sessions through it. It contains no rules."""

"""The history as an MCP server: ``orihon mcp``. Any agent that speaks MCP searches it and recalls it word for word."""

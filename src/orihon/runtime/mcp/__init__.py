"""MCP servers and their tools, through the official SDK."""

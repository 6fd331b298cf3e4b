"""Tools of MCP servers, through the official SDK. Needs the extra ``mcp``; imported when first used."""

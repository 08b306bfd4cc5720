"""A Model Context Protocol server with one search tool, on a loopback port or on stdio."""

import sys

from mcp.server.fastmcp import FastMCP

server = FastMCP("library", port=int(sys.argv[1]) if sys.argv[1:] else 0, log_level="WARNING")


@server.tool()
def look_up(query: str) -> list[str]:
    """Look things up."""
    return [
        "The lighthouse on the northern cape was built in 1869 of grey granite.",
        "Its keeper walks down to the harbour each morning before the ferries leave.",
    ]


if __name__ == "__main__":
    server.run("streamable-http" if sys.argv[1:] else "stdio")

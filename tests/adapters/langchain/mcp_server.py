"""A Model Context Protocol server with one search tool."""

from mcp.server.fastmcp import FastMCP

server = FastMCP("library", log_level="WARNING")


@server.tool()
def look_up(query: str) -> list[str]:
    """Look things up."""
    return [
        "The lighthouse on the northern cape was built in 1869 of grey granite.",
        "Its keeper walks down to the harbour each morning before the ferries leave.",
    ]


if __name__ == "__main__":
    server.run("stdio")

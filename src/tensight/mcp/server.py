"""The server an agent talks to over its standard input and output."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensight import __version__
from tensight.errors import MissingExtra, TensightError
from tensight.mcp.driving import Driving
from tensight.mcp.reading import Reading

if TYPE_CHECKING:
    from mcp.server import MCPServer

INSTRUCTIONS = (
    "Tensight records trainings of neural networks and explains what goes wrong in them. Begin with `runs`, then"
    " `findings` of the newest: each names the cause, the place in the user's code, the first bad step, the evidence"
    " and what to change. `history` and `statistics` show the numbers behind it."
)


def build(folder: Path, control: str | None = None) -> MCPServer[Any]:
    """A server with the reading tools, and with those that drive when the address of a page is given."""
    try:
        from mcp.server import MCPServer
    except ImportError as error:
        raise MissingExtra("mcp", "mcp", "serving agents") from error
    server: MCPServer[Any] = MCPServer("tensight", version=__version__, instructions=INSTRUCTIONS, log_level="ERROR")
    tools = list(Reading(folder).tools)
    if control is not None:
        tools += Driving(control).tools
    for tool in tools:
        server.add_tool(_in_one_sentence(tool), name=tool.__name__, description=tool.__doc__)
    return server


def serve(folder: Path, control: str | None = None) -> None:
    """Serve until the agent hangs up."""
    build(folder, control).run("stdio")


def _in_one_sentence(tool: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Errors made on purpose reach the agent as their sentence, without the name of a Python class."""

    @functools.wraps(tool)
    def asked(*args: Any, **kwargs: Any) -> dict[str, Any]:
        try:
            return tool(*args, **kwargs)
        except TensightError as error:
            return {"error": str(error)}

    return asked

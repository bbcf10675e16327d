"""The server: the page, its data, and the way back to a training. Reads run directories; needs no framework."""

from tensight.server.running import serve, view

__all__ = ["serve", "view"]

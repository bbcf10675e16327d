"""The server process that `launch.start` starts. Its orders come as one line on standard input."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

from tensight.server.app import create
from tensight.server.running import run


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, 1)
        if not piece:
            return  # the training was gone before it could say anything
        line += piece
    order = json.loads(line)
    listening = socket.socket(fileno=order["descriptor"])
    app = create(token=order["token"], host=order["host"], port=order["port"], place=Path(order["run_dir"]), mode="run")
    run(app, listening, parent=0, tls_cert=order["tls_cert"], tls_key=order["tls_key"])


if __name__ == "__main__":
    main()

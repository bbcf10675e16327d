"""The page over TLS, with a certificate made for the test."""

from __future__ import annotations

import os
import ssl
import subprocess
from pathlib import Path

import httpx

from tensight.control import launch
from tensight.control.link import Link
from tensight.control.machine import Machine
from tensight.control.messages import Hello, Status
from tensight.control.records import Granted, Offer, Records
from tensight.records import RunInfo
from tensight.store import Writer
from tests.server.serving import LONG
from tests.server.test_trainings import until


def test_page_and_training_speak_tls_when_the_server_does(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    make += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(make, check=True, capture_output=True)
    folder = tmp_path / "run"
    info = RunInfo("run", ("x",), 0.0, pid=os.getpid())
    writer = Writer(folder, info)
    address = launch.start(folder, tls_cert=str(cert), tls_key=str(key))
    try:
        assert address.url.startswith("https://")
        trust = ssl.create_default_context(cafile=str(cert))
        with httpx.Client(base_url=f"https://{address.netloc}", verify=trust, timeout=LONG, trust_env=False) as page:
            answer = page.get(address.url)
            assert "Secure" in answer.headers["set-cookie"]
            link = Link(address, Hello.of(info, folder)).start()
            link.send(Status(Machine("running", 3)))
            until(lambda: (page.get("/api/runs/run").json().get("control") or {}).get("step") == 3)
            link.close("finished")
        mark = "0" * 32
        (folder / f".{mark}").touch()
        assert Records(address).offer(Offer("run", str(folder), mark)) == Granted()
    finally:
        launch.stop(address)
        writer.close()

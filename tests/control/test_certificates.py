"""A certificate that cannot be used is said before anything is served."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensight.control.launch import check_certificate
from tensight.errors import UsageError


def test_a_key_without_a_certificate_is_wrong_use() -> None:
    check_certificate(None, None)
    with pytest.raises(UsageError, match="--tls-key is given without --tls-cert: both are needed"):
        check_certificate(None, "key.pem")


@pytest.mark.parametrize(("key", "words"), [(None, "the same file, for want of --tls-key"), ("same", "--tls-key ")])
def test_a_file_that_is_no_certificate_is_refused(tmp_path: Path, key: str | None, words: str) -> None:
    file = tmp_path / "cert.pem"
    file.write_text("not a certificate")
    with pytest.raises(UsageError, match="it must be in PEM form") as refused:
        check_certificate(str(file), str(file) if key else None)
    assert words in str(refused.value)


def test_a_certificate_that_is_not_there_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be used: No such file or directory"):
        check_certificate(str(tmp_path / "none.pem"), None)

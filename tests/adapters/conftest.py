"""Assertions of the shipped suite say what differed."""

import pytest

pytest.register_assert_rewrite(*(f"tensight.testing.adapter_{part}" for part in ("suite", "trainings", "checks")))

"""Assertions of the shipped suite say what differed."""

import pytest

pytest.register_assert_rewrite("tensight.testing.adapter_suite", "tensight.testing.adapter_checks")

"""Ray's start-up takes half a minute on a quiet machine, and much longer on a busy one."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("TENSIGHT_FULL") else ["test_ray.py"]

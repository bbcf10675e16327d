"""A search's script without any framework: how far two values are from the best ones."""

import sys

from tensight.tuning import HyperConfig, report

values = HyperConfig().params
x, y = values.x, values.y
if "--fail-above" in sys.argv and x > float(sys.argv[sys.argv.index("--fail-above") + 1]):
    raise SystemExit("this part of the world is forbidden")
for step in range(5):
    report((x - 0.3) ** 2 + 0.1 * (y - 2) ** 2 + 1 / (step + 1), step=step)

"""A trial that never ends by itself; says that it runs, and who it is."""

import os
import sys
import time
from pathlib import Path

Path(sys.argv[1]).write_text(str(os.getpid()))
while True:
    time.sleep(0.1)

"""What the kernel must leave alone in the process that loads it. Each test has a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from tensight.stats import native


def run(program: str) -> str:
    assert native.available(), native.describe()  # built here, so that the process only loads it
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_subnormal_numbers_are_intact_before_and_after_loading() -> None:
    out = run(
        """
        import numpy as np
        from tensight.stats import native
        small = np.array([1e-40, -3e-42, 1e-45], np.float32)
        def products():
            return (small * np.float32(1)).tolist(), 5e-324 * 1.0, (small + small).tolist()
        before = products()
        assert native.available()
        assert products() == before
        stats = native.contiguous(small.ctypes.data, "float32", 3)
        assert products() == before
        assert before[1] > 0 and all(before[0])
        print(stats.zero, stats.positive, stats.negative)
        """
    )
    assert out == "0 2 1"


def test_a_training_that_flushes_subnormals_keeps_doing_so_and_they_are_counted_right() -> None:
    out = run(
        """
        import torch
        from tensight.stats import native
        small = torch.full((100,), 1e-40)
        assert torch.set_flush_denormal(True)
        stats = native.contiguous(small.data_ptr(), "float32", 100)
        print(stats.zero, stats.positive, int((small * 1).count_nonzero()))
        """
    )
    assert out == "0 100 0"


def test_a_child_of_a_process_that_is_using_the_kernel_can_use_it() -> None:
    out = run(
        """
        import os, threading, warnings
        import numpy as np
        from tensight.stats import statistics
        warnings.simplefilter("ignore")
        big = np.ones(4_000_000, np.float32)
        started, stop = threading.Event(), threading.Event()
        def busy():
            while not stop.is_set():
                statistics(big)
                started.set()
        thread = threading.Thread(target=busy)
        thread.start()
        started.wait(120)
        child = os.fork()
        if child == 0:
            os._exit(0 if statistics(big[:1000]).mean == 1.0 and statistics(big).positive == big.size else 1)
        _, status = os.waitpid(child, 0)
        stop.set()
        thread.join()
        print(os.waitstatus_to_exitcode(status))
        """
    )
    assert out == "0"


def test_loading_it_imports_no_framework() -> None:
    out = run(
        """
        import sys
        from tensight.stats import native
        native.available()
        print(sorted({"torch", "mindspore", "ml_dtypes"} & set(sys.modules)))
        """
    )
    assert out == "[]"

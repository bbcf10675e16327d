"""Found by Python at start-up in processes that a watched script starts; hands on to the user's own sitecustomize."""

import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
_rest = [path for path in sys.path if os.path.abspath(path or ".") != _here]
_spec = importlib.machinery.PathFinder.find_spec("sitecustomize", _rest)
if _spec is not None and _spec.loader is not None:
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["sitecustomize"] = _module
    _spec.loader.exec_module(_module)

if os.environ.get("TENSIGHT_RUN"):
    try:
        from tensight.session.startup import begin

        begin()
    except Exception as error:  # never a reason for the user's process not to start
        print(f"tensight: this process is not watched: {type(error).__name__}: {error}", file=sys.stderr)

"""Runs a script written for smdebug: with smdebug, or with ``tocsin.smdebug`` in its imports.

    run_smdebug_script.py smdebug|tocsin SCRIPT OUT [PACKAGES]

``PACKAGES`` is where smdebug is installed, in an environment of its own: this interpreter's has the
framework.
"""

import re
import sys
from pathlib import Path
from unittest.mock import MagicMock


def main():
    library, script, out, *packages = sys.argv[1:]
    text = Path(script).read_text()
    if library == "tocsin":
        text = re.sub(r"(?m)^(from|import) smdebug\b", r"\1 tocsin.smdebug", text)
    elif "mxnet" in script:  # which needs an older numpy than smdebug's pandas
        sys.path += packages
        sys.modules["pandas"] = MagicMock()
    else:  # with its numpy: smdebug needs one before 2.3
        sys.path[:0] = packages
    if library == "smdebug" and "xgboost" in script:
        import pkg_resources

        found = pkg_resources.get_distribution  # the environment has it under another name
        pkg_resources.get_distribution = lambda name: found(f"{name}-cpu")
    sys.argv = [script, out]
    exec(compile(text, script, "exec"), {"__name__": "__main__"})  # noqa: S102


if __name__ == "__main__":
    main()

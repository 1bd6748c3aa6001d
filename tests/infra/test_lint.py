"""CloudFormation's own rules for templates: ours, and the one for member accounts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .conftest import Synthesised

ROOT = Path(__file__).parents[2]
# The CDK writes each function's dependency on its role, which its property says already.
IGNORED = "W3005"


def test_cfn_lint_finds_nothing(own: Synthesised, existing: Synthesised, tmp_path: Path) -> None:
    templates = [ROOT / "examples" / "member-account" / "template.yaml"]
    for name, stack in (("own", own), ("existing", existing)):
        templates.append(tmp_path / f"{name}.json")
        templates[-1].write_text(json.dumps(stack.template))
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from cfnlint.runner import main; main()"),
            *("--ignore-checks", IGNORED),
            *("--regions", "us-east-1", "--template", *templates),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr

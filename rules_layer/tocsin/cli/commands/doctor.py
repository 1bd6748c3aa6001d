"""``tocsin doctor``: whether a deployment works."""

from __future__ import annotations

from tocsin.cli.options import Json, Stack, Stage
from tocsin.cli.output import answer


def doctor(stack: Stack = None, stage: Stage = None, as_json: Json = False) -> int:
    """Check a deployment, and say what to do.

    Checks its version, the capture bucket's region, notifications and key, unconfirmed
    subscriptions, the SMS sandbox, the account's concurrency, the lag of the last hour, and dead
    letters. Changes nothing.

    Exit code: 0 all is well, 1 there is something to do or to find out, 2 there is no such stack.

    \b
    Examples:
      tocsin doctor
      tocsin doctor --stage dev --json
    """
    from tocsin.cli.doctor import doctor_document, print_doctor
    from tocsin.cli.stack import Deployment

    document = doctor_document(Deployment(stack, {}, stage))
    answer(document, print_doctor, as_json=as_json)
    return 0 if document["sound"] else 1

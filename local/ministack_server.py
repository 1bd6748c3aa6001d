"""Runs the emulator; executed by its own interpreter with the arguments of hypercorn."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from hypercorn.__main__ import main  # type: ignore[import-not-found]
    from ministack.services import eventbridge  # type: ignore[import-not-found]

    # On AWS, SageMaker publishes events with the source "aws.sagemaker". Here another process
    # plays SageMaker, so the emulator has to accept such sources in PutEvents.
    eventbridge._put_events.__defaults__ = (True,)
    sys.exit(main(sys.argv[1:]))

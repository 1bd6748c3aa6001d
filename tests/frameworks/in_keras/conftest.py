"""Tests that run where Keras is. Those of the callback need a backend: KERAS_BACKEND says which.

``test_backends.py`` runs them with each, in processes of their own.
"""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("KERAS_BACKEND") else ["callback"]

#!/usr/bin/env python3
"""The CDK app: reads the options, builds the one stack, writes its template."""

import sys

from aws_cdk import App
from options import read_options
from stack import RelaunchStack

app = App()
try:
    options = read_options(app.node.get_all_context())
except ValueError as error:
    sys.exit(f"relaunch: {error}")
RelaunchStack(app, "TocsinRelaunch", options=options)
app.synth()

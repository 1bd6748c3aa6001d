#!/usr/bin/env python3
"""The CDK app: reads the options, builds the one stack, writes its template."""

import sys

from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks

from infra.bundle import BundleError
from infra.constants import STACK
from infra.options import OptionError, read_options
from infra.stack import TocsinStack

app = App()
try:
    TocsinStack(app, STACK, options=read_options(app.node.get_all_context()))
except (OptionError, BundleError) as error:
    sys.exit(f"tocsin: {error}")
Validations.of(app).add_plugins(AwsSolutionsChecks(app))
app.synth()

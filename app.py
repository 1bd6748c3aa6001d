#!/usr/bin/env python3
"""The CDK app: reads the options, builds the one stack, writes its template."""

import sys

from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks
from tocsin_cdk import OptionError, TocsinStack
from tocsin_cdk.bundle import BundleError
from tocsin_cdk.options import read_options

app = App()
try:
    TocsinStack(app, options=read_options(app.node.get_all_context()))
except (OptionError, BundleError) as error:
    sys.exit(f"tocsin: {error}")
Validations.of(app).add_plugins(AwsSolutionsChecks(app))
app.synth()

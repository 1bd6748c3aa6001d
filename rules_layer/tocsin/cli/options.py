"""Options that several commands have."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Profile(StrEnum):
    recommended = "recommended"
    sagemaker = "sagemaker"


RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A local folder or s3://bucket/prefix.")
]

Loss = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A scalar that is a loss, in a history of another tool. Repeatable. Default: by name.",
    ),
]

CountedBy = Annotated[
    str | None,
    typer.Option(
        "--step",
        metavar="NAME|row",
        help="The column that counts the steps of a history, or row to number its rows. Default: "
        "by names and values.",
    ),
]

OneTraining = Annotated[
    str | None,
    typer.Option(
        "--training",
        metavar="N",
        help="The training, by number or name, of a history that has several. Default: the last.",
    ),
]

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]

Every = Annotated[bool, typer.Option("--all", help="Also list rules without a finding.")]

WatchFile = Annotated[
    str | None, typer.Option("--watch", metavar="FILE", help="A watch file: YAML or JSON.")
]

RuleOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[:KEY=VALUE,…]",
        help="A rule with its parameters and engine options. Repeatable.",
    ),
]

BaselineOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RUN",
        help="A run that is known to be good, to compare with. Repeatable, up to 8 runs.",
    ),
]

ProfileOption = Annotated[
    Profile | None,
    typer.Option(help="The profile of rules and defaults; overrides the watch file."),
]

RuleFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--rules",
        metavar="PATH",
        help="A file or folder of custom rules. Repeatable.",
    ),
]

NotifyOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TARGET",
        help="Send firing and resolved rules: slack=URL, teams=URL, discord=URL, googlechat=URL, "
        "cloudevents=URL, json=URL, pagerduty=KEY, desktop, or "
        "smtp://USER:PASSWORD@HOST/TO@EXAMPLE.COM. Repeatable.",
    ),
]

MirrorOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TOOL",
        help="Write the status of each rule there, too: wandb[=ENTITY/PROJECT/RUN], "
        "mlflow[=RUN_ID] or tensorboard=FOLDER. Repeatable.",
    ),
]

Stack = Annotated[
    str | None,
    typer.Option("--stack", metavar="NAME", help="The CloudFormation stack to use."),
]

Stage = Annotated[
    str | None,
    typer.Option(
        "--stage",
        metavar="STAGE",
        help="The stage that was deployed with -c stage=STAGE; default: TOCSIN_STAGE, or none.",
    ),
]

Table = Annotated[
    str | None,
    typer.Option("--table", metavar="TABLE", help="The stack's table of alerts and silences."),
]

"""The options of a deployment, read from CDK context: ``cdk.json`` or ``-c key=value``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tocsin.parsing import (
    DEFAULT_STOP_LIMIT,
    email_fault,
    list_items,
    phone_fault,
    stop_limit,
    webhook_name_fault,
)

from infra.constants import ROOT

_BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
# ASCII, because a policy of IAM can name no other key.
_PREFIX = r"[A-Za-z0-9_!.'()=-]+(/[A-Za-z0-9_!.'()=-]+)*"
_KEY_ARN = r"arn:aws[\w-]*:kms:[a-z0-9-]+:\d{12}:key/[\w-]+"
_MOST_TEXT = 3000  # characters of all recipients: the environment of act has at most 4 KiB

# CloudWatch Logs accepts only these numbers of days.
_RETENTIONS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 3653)


class OptionError(ValueError):
    """An option is not valid; the message says which, and what is valid."""


@dataclass(frozen=True)
class DeploymentOptions:
    """The options of a deployment, each valid; docs/deploy.md describes them.

    capture_prefix: empty, or ends with a slash.
    watch_file: an existing file.
    webhooks: names only; their URLs and secrets are SSM parameters.
    stop_guard: the most runs of one prefix that may be stopped within a time.
    stop_ceiling: the most runs of all; empty: five times as many.
    sms_run_cap: the most SMS of one run in a month; None: a quarter of the deployment's.
    email_run_cap, metric_run_cap: the most e-mails of one run in a day; its most metrics.
    local_python: an existing interpreter; the layer is installed for it instead of for Lambda.
    """

    capture_bucket: str | None = None
    capture_prefix: str = ""
    capture_key_arn: str | None = None
    emails: tuple[str, ...] = ()
    phones: tuple[str, ...] = ()
    alarm_emails: tuple[str, ...] = ()
    watch_file: Path | None = None
    allowed_recipients: tuple[str, ...] = ()
    webhooks: tuple[str, ...] = ()
    sms_monthly_cap: int = 100
    stop_guard: str = DEFAULT_STOP_LIMIT
    stop_ceiling: str = ""
    sms_run_cap: int | None = None
    email_run_cap: int = 100
    metric_run_cap: int = 100
    architecture: str = "arm64"
    job_metrics: bool = True
    retain_days: int = 90
    local_python: Path | None = None

    @property
    def recipients(self) -> tuple[str, ...]:
        """The recipients that a rule may name: those allowed, and those that get all alerts."""
        return (*self.allowed_recipients, *self.emails, *self.phones)


def read_options(context: Mapping[str, Any]) -> DeploymentOptions:
    """Reads the options from the whole CDK context. A missing option has its default.

    Raises OptionError for a wrong value, and for a key that looks like a misspelt option.
    """
    _refuse_misspelt(context)
    given = {key: value for key in _PARSERS if (value := context.get(key)) not in (None, "", [])}
    values = {_PARSERS[key][0]: _PARSERS[key][1](key, value) for key, value in given.items()}
    runtime = values.pop("layer_runtime", "lambda")
    if (runtime == "local") != ("local_python" in values):
        raise OptionError(
            "tocsin:layerRuntime=local and tocsin:localPython=PATH go together: give both or none"
        )
    options = DeploymentOptions(**values)
    length = len(",".join((*options.recipients, *options.webhooks)))
    if length > _MOST_TEXT:
        raise OptionError(
            f"options emails, phones, allowedRecipients and webhooks are {length} characters "
            f"together, but must be at most {_MOST_TEXT}: use a mailing list, or *@example.com"
        )
    return options


def _refuse_misspelt(context: Mapping[str, Any]) -> None:
    # The CDK's own flags in the context have a colon or an at sign in their names.
    for key in context:
        if key in _PARSERS or ":" in key or "@" in key:
            continue
        for meant in difflib.get_close_matches(key, _PARSERS, n=1, cutoff=0.8):
            raise OptionError(f"unknown option {key} in CDK context: did you mean {meant}?")


def _wrong(key: str, value: object, valid: str) -> NoReturn:
    _refuse(key, f"is {value!r}, but must be {valid}")


def _refuse(key: str, fault: str) -> NoReturn:
    raise OptionError(f'option {key} {fault} (-c {key}=… or "context" in cdk.json)')


def _matching(pattern: str, valid: str) -> Callable[[str, Any], str]:
    def parse(key: str, value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            _wrong(key, value, valid)
        return value

    return parse


def _each(
    fault: Callable[[str], str | None], example: str
) -> Callable[[str, Any], tuple[str, ...]]:
    """A parser for a list of texts; ``fault`` checks each."""

    def parse(key: str, value: Any) -> tuple[str, ...]:
        items = list_items(value)
        if items is None:
            _wrong(key, value, f"a list of texts like {example}")
        for item in items:
            if not isinstance(item, str):
                _refuse(key, f"has the item {item!r}, but must be a list of texts like {example}")
            if why := fault(item):
                _refuse(key, f"has a wrong item: {why}")
        return tuple(dict.fromkeys(items))

    return parse


def _allowed_fault(recipient: str) -> str | None:
    if "@" not in recipient:
        return phone_fault(recipient)
    if not recipient.startswith("*@"):
        return email_fault(recipient)
    if email_fault(f"anybody{recipient[1:]}"):
        return f"{recipient!r} does not name a domain (write it like *@example.com)"
    return None


def _prefix(key: str, value: Any) -> str:
    text = value.strip("/") if isinstance(value, str) else value
    valid = "a path like team/runs, of ASCII letters, digits and _!.'()=- without empty parts"
    return f"{_matching(_PREFIX, valid)(key, text)}/" if text != "" else ""


def _file(key: str, value: Any) -> Path:
    path = ROOT / value if isinstance(value, str) else ROOT
    if not path.is_file():
        _wrong(key, value, f"a file that exists (relative paths start at {ROOT})")
    return path


def _flag(key: str, value: Any) -> bool:
    flags = {"true": True, "false": False}
    flag = value if isinstance(value, bool) else flags.get(str(value).lower())
    return flag if flag is not None else _wrong(key, value, "true or false")


def _days(key: str, value: Any) -> int:
    days = _number(value)
    return days if days in _RETENTIONS else _wrong(key, value, f"one of {_RETENTIONS} days")


def _cap(key: str, value: Any) -> int:
    cap = _number(value)
    return cap if 0 <= cap <= 100_000 else _wrong(key, value, "a number from 0 to 100000")


def _number(value: Any) -> int:
    """A number in JSON, or its digits as text; -1 for anything else."""
    plain = isinstance(value, int | str) and re.fullmatch("[0-9]{1,9}", str(value))
    return int(value) if plain else -1


def _stop_guard(key: str, value: Any) -> str:
    try:
        stop_limit(value)
    except ValueError as error:
        _refuse(key, f"is wrong: {error}")
    return str(value)


_emails = _each(email_fault, "ml-oncall@example.com")

_PARSERS: Mapping[str, tuple[str, Callable[[str, Any], Any]]] = {
    "captureBucket": ("capture_bucket", _matching(_BUCKET, "a bucket's name")),
    "capturePrefix": ("capture_prefix", _prefix),
    "captureKeyArn": (
        "capture_key_arn",
        _matching(_KEY_ARN, "the ARN of a KMS key, not of an alias"),
    ),
    "emails": ("emails", _emails),
    "phones": ("phones", _each(phone_fault, "+15551230000")),
    "alarmEmails": ("alarm_emails", _emails),
    "watchFile": ("watch_file", _file),
    "allowedRecipients": ("allowed_recipients", _each(_allowed_fault, "*@example.com")),
    "webhooks": ("webhooks", _each(webhook_name_fault, "oncall-slack")),
    "smsMonthlyCap": ("sms_monthly_cap", _cap),
    "stopGuard": ("stop_guard", _stop_guard),
    "stopCeiling": ("stop_ceiling", _stop_guard),
    "smsRunCap": ("sms_run_cap", _cap),
    "emailRunCap": ("email_run_cap", _cap),
    "metricRunCap": ("metric_run_cap", _cap),
    "architecture": ("architecture", _matching("arm64|x86_64", "arm64 or x86_64")),
    "jobMetrics": ("job_metrics", _flag),
    "retainDays": ("retain_days", _days),
    "tocsin:layerRuntime": ("layer_runtime", _matching("lambda|local", "lambda or local")),
    "tocsin:localPython": ("local_python", _file),
}

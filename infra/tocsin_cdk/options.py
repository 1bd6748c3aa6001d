"""The options of a deployment, read from CDK context: ``cdk.json`` or ``-c key=value``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypedDict

from tocsin.aws.settings import STAGE_PATTERN, Names
from tocsin.parsing import (
    DEFAULT_STOP_LIMIT,
    email_fault,
    list_items,
    phone_fault,
    stop_limit,
    webhook_name_fault,
)

_BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
# ASCII, because a policy of IAM can name no other key.
_PREFIX = r"[A-Za-z0-9_!.'()=-]+(/[A-Za-z0-9_!.'()=-]+)*"
_KEY_ARN = r"arn:aws[\w-]*:kms:[a-z0-9-]+:\d{12}:key/[\w-]+"
_ROLE_ARN = r"arn:aws[\w-]*:iam::\d{12}:role/[\w+=,.@/-]+"
_MOST_TEXT = 3000  # characters of all recipients: the environment of act has at most 4 KiB

# CloudWatch Logs accepts only these numbers of days.
_RETENTIONS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 3653)


# A new account may run 10 invocations at a time: one of patrol fits beside these. Otherwise a
# function could be throttled until its messages become dead letters.
_CONCURRENCY: Mapping[str, int] = {"evaluate": 5, "act": 2, "report": 2}
_MEMORY: Mapping[str, int] = {"evaluate": 1024, "act": 512, "patrol": 256, "report": 1769}  # MB
_LEAST_MEMORY = {"evaluate": 512, "act": 256, "patrol": 128, "report": 1024}


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
    concurrency: the most invocations at a time, by function.
    memory: in MB, by function.
    member_roles: the roles in other accounts by which their jobs are described and stopped.
    stage: of the names; empty for the plain ones.
    tags: of every resource.
    local_python: an existing interpreter; the layer is installed for it instead of for Lambda.
    """

    stage: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    concurrency: Mapping[str, int] = field(default_factory=lambda: _CONCURRENCY)
    memory: Mapping[str, int] = field(default_factory=lambda: _MEMORY)
    member_roles: tuple[str, ...] = ()
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
    def names(self) -> Names:
        """The names of the deployment that others use."""
        return Names(self.stage)

    @property
    def member_accounts(self) -> tuple[str, ...]:
        """The accounts of ``member_roles``."""
        return tuple(sorted({arn.split(":")[4] for arn in self.member_roles}))

    @property
    def recipients(self) -> tuple[str, ...]:
        """The recipients that a rule may name: those allowed, and those that get all alerts."""
        return (*self.allowed_recipients, *self.emails, *self.phones)


class OptionValues(TypedDict, total=False):
    """The options as keywords of the construct; each value as in ``cdk.json``."""

    capture_bucket: str
    capture_prefix: str
    capture_key_arn: str
    emails: list[str]
    phones: list[str]
    alarm_emails: list[str]
    watch_file: str | Path
    allowed_recipients: list[str]
    webhooks: list[str]
    sms_monthly_cap: int
    stop_guard: str
    stop_ceiling: str
    sms_run_cap: int
    email_run_cap: int
    metric_run_cap: int
    architecture: str
    job_metrics: bool
    retain_days: int
    stage: str
    tags: dict[str, str]
    concurrency: dict[str, int]
    memory: dict[str, int]
    member_roles: list[str]


def given_options(given: OptionValues) -> DeploymentOptions:
    """The options from keywords. Raises OptionError, also for a keyword that is not an option."""
    keys = {fields[0]: key for key, fields in _PARSERS.items() if ":" not in key}
    if unknown := sorted(set(given) - set(keys)):
        near = difflib.get_close_matches(unknown[0], keys, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(keys)}"
        raise OptionError(f"Tocsin has no option {unknown[0]}: {hint}")
    return read_options(
        {
            keys[name]: str(value) if isinstance(value, Path) else value
            for name, value in given.items()
        }
    )


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


def _role_fault(arn: str) -> str | None:
    return None if re.fullmatch(_ROLE_ARN, arn) else f"{arn!r} is not the ARN of a role"


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
    path = Path.cwd() / value if isinstance(value, str) else Path.cwd()
    if not path.is_file():
        _wrong(key, value, f"a file that exists (relative paths start at {Path.cwd()})")
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


def _pairs(key: str, value: Any, example: str) -> dict[str, Any]:
    """``a=1,b=2``, or a JSON object of the same."""
    if isinstance(value, Mapping):
        return {str(name): each for name, each in value.items()}
    pairs = [str(item).partition("=") for item in list_items(value) or ("",)]
    if not all(name and sign for name, sign, _ in pairs):
        _wrong(key, value, f"a list like {example}")
    return {name: text for name, _, text in pairs}


def _by_function(
    defaults: Mapping[str, int], least: Mapping[str, int], most: int, unit: str
) -> Callable[[str, Any], Mapping[str, int]]:
    """A parser for a number for some functions; the others keep their defaults."""
    example = ",".join(f"{name}={number}" for name, number in defaults.items())

    def parse(key: str, value: Any) -> Mapping[str, int]:
        numbers = {name: _number(each) for name, each in _pairs(key, value, example).items()}
        for name, number in numbers.items():
            if name not in defaults:
                _refuse(key, f"names {name!r}, but its functions are {', '.join(defaults)}")
            if not least[name] <= number <= most:
                _refuse(key, f"of {name} must be from {least[name]} to {most} {unit}")
        return {**defaults, **numbers}

    return parse


def _tags(key: str, value: Any) -> Mapping[str, str]:
    tags = _pairs(key, value, "team=vision,cost-centre=42")
    for name, text in tags.items():
        fits = isinstance(text, str) and len(name) <= 128 and len(text) <= 256
        if not fits or name.lower().startswith("aws:"):
            _refuse(
                key,
                f"has the tag {name!r}, but a name must have at most 128 characters and not begin "
                "with aws:, a value is text of at most 256",
            )
    return tags


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
    "stage": (
        "stage",
        _matching(STAGE_PATTERN, "a name like dev: at most 20 of a-z, 0-9 and -, a letter first"),
    ),
    "tags": ("tags", _tags),
    "concurrency": (
        "concurrency",
        _by_function(_CONCURRENCY, dict.fromkeys(_CONCURRENCY, 2), 1000, "invocations at a time"),
    ),
    "memory": ("memory", _by_function(_MEMORY, _LEAST_MEMORY, 10_240, "MB")),
    "memberRoles": (
        "member_roles",
        _each(_role_fault, "arn:aws:iam::111122223333:role/TocsinMember"),
    ),
    "tocsin:layerRuntime": ("layer_runtime", _matching("lambda|local", "lambda or local")),
    "tocsin:localPython": ("local_python", _file),
}

"""The options of a deployment, read from CDK context: ``cdk.json`` or ``-c key=value``."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from infra.constants import ROOT

_BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
_PREFIX = r"[\w!.'()=-]+(/[\w!.'()=-]+)*"
_KEY_ARN = r"arn:aws[\w-]*:kms:[a-z0-9-]+:\d{12}:key/[\w-]+"
_EMAIL = r"[^@\s,*]+@[^@\s,*]+\.[^@\s,*]+"
_PHONE = r"\+[1-9]\d{6,14}"
_RECIPIENT = rf"{_EMAIL}|\*@[^@\s,*]+\.[^@\s,*]+|{_PHONE}"
_WEBHOOK = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
_STOP_GUARD = r"([1-9][0-9]{0,3})/([1-9][0-9]{0,3})([mh])"
_MOST_TEXT = 3000  # characters of all names and addresses: act's environment takes 4 KiB in all

# CloudWatch Logs keeps logs for one of these numbers of days and no other.
_RETENTIONS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 3653)


class OptionError(ValueError):
    """When an option has a value that cannot be meant: says what, where and how to mend it."""


@dataclass(frozen=True)
class Options:
    """What a deployment may choose.

    ``capture_prefix`` is empty or ends with a slash; ``watch_file`` and ``local_python`` exist.
    ``stop_guard`` is so many runs in so long a time: "10/10m". ``webhooks`` are names only.
    With ``local_python`` the layer is installed for that interpreter instead of for Lambda.
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
    stop_guard: str = "10/10m"
    architecture: str = "arm64"
    job_metrics: bool = True
    retain_days: int = 90
    local_python: Path | None = None

    @property
    def recipients(self) -> tuple[str, ...]:
        """Whom a rule may name: who is allowed, and who gets messages anyhow."""
        return (*self.allowed_recipients, *self.emails, *self.phones)


def read_options(context: Mapping[str, Any]) -> Options:
    """Reads the options out of the whole CDK context. An option that is absent has its default.

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
    options = Options(**values)
    length = len(",".join((*options.recipients, *options.webhooks)))
    if length > _MOST_TEXT:
        raise OptionError(
            f"options emails, phones, allowedRecipients and webhooks are {length} characters "
            f"together, but must be at most {_MOST_TEXT}: use a mailing list, or *@example.com"
        )
    return options


def _refuse_misspelt(context: Mapping[str, Any]) -> None:
    # Context is shared with the CDK's own flags, which have a colon or an at sign in their names.
    for key in context:
        if key in _PARSERS or ":" in key or "@" in key:
            continue
        for meant in difflib.get_close_matches(key, _PARSERS, n=1, cutoff=0.8):
            raise OptionError(f"unknown option {key} in CDK context: did you mean {meant}?")


def _wrong(key: str, value: object, mend: str) -> NoReturn:
    raise OptionError(
        f'option {key} is {value!r}, but must be {mend} (-c {key}=… or "context" in cdk.json)'
    )


def _matching(pattern: str, mend: str) -> Callable[[str, Any], str]:
    def parse(key: str, value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            _wrong(key, value, mend)
        return value

    return parse


def _recipient(pattern: str, mend: str) -> Callable[[str, Any], str]:
    """Of this form, and one that ``act`` would send to as well."""
    matching = _matching(pattern, mend)

    def parse(key: str, value: Any) -> str:
        from tocsin.actions import malformed

        text = matching(key, value)
        kind = "email" if "@" in text else "sms"
        if malformed(kind, re.sub(r"^\*(?=@)", "anybody", text)):
            _wrong(key, value, mend)
        return text

    return parse


def _each(one: Callable[[str, Any], str], mend: str) -> Callable[[str, Any], tuple[str, ...]]:
    def parse(key: str, value: Any) -> tuple[str, ...]:
        items = _listed(value)
        if not isinstance(items, list):
            _wrong(key, value, f"a list, each {mend}")
        return tuple(dict.fromkeys(one(key, item) for item in items))

    return parse


def _listed(value: Any) -> Any:
    """A list as JSON, as text that holds JSON, or as text with commas."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except json.JSONDecodeError:
            return value
    return [item.strip() for item in value.split(",") if item.strip()]


def _prefix(key: str, value: Any) -> str:
    text = value.strip("/") if isinstance(value, str) else value
    mend = "a path like team/runs, without wildcards, spaces or empty parts"
    return f"{_matching(_PREFIX, mend)(key, text)}/" if text != "" else ""


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
    """A number of JSON, or its digits as text; -1 for all else."""
    plain = isinstance(value, int | str) and re.fullmatch("[0-9]{1,9}", str(value))
    return int(value) if plain else -1


def _stop_guard(key: str, value: Any) -> str:
    if isinstance(value, str) and (parts := re.fullmatch(_STOP_GUARD, value)):
        minutes = int(parts[2]) * (60 if parts[3] == "h" else 1)
        if int(parts[1]) <= 1000 and minutes <= 24 * 60:
            return value
    _wrong(key, value, "jobs per time, 1 to 1000 in 1m to 24h, like 10/10m")


_ADDRESS = "an address like ops@example.com"
_NUMBER = "a number like +15551230000"
_ANY_RECIPIENT = "an address, *@example.com, or a number like +15551230000"
_NAME = "a name of at most 64 letters, digits, dots, dashes and underscores, like oncall-slack"


_PARSERS: Mapping[str, tuple[str, Callable[[str, Any], Any]]] = {
    "captureBucket": ("capture_bucket", _matching(_BUCKET, "a bucket's name")),
    "capturePrefix": ("capture_prefix", _prefix),
    "captureKeyArn": (
        "capture_key_arn",
        _matching(_KEY_ARN, "the ARN of a KMS key, not of an alias"),
    ),
    "emails": ("emails", _each(_recipient(_EMAIL, _ADDRESS), _ADDRESS)),
    "phones": ("phones", _each(_recipient(_PHONE, _NUMBER), _NUMBER)),
    "alarmEmails": ("alarm_emails", _each(_recipient(_EMAIL, _ADDRESS), _ADDRESS)),
    "watchFile": ("watch_file", _file),
    "allowedRecipients": (
        "allowed_recipients",
        _each(_recipient(_RECIPIENT, _ANY_RECIPIENT), _ANY_RECIPIENT),
    ),
    "webhooks": ("webhooks", _each(_matching(_WEBHOOK, _NAME), _NAME)),
    "smsMonthlyCap": ("sms_monthly_cap", _cap),
    "stopGuard": ("stop_guard", _stop_guard),
    "architecture": ("architecture", _matching("arm64|x86_64", "arm64 or x86_64")),
    "jobMetrics": ("job_metrics", _flag),
    "retainDays": ("retain_days", _days),
    "tocsin:layerRuntime": ("layer_runtime", _matching("lambda|local", "lambda or local")),
    "tocsin:localPython": ("local_python", _file),
}

"""The rules that a watch file asks for: its own, those of its profile, or both."""

from __future__ import annotations

from tocsin.rules import MACHINE, TRAINING, find_rule, rule_names
from tocsin.watch.config import RuleConfig, Watch


def configured(watch: Watch, about: str | None = None) -> tuple[RuleConfig, ...]:
    """Return the rules of a watch file, or with ``about`` those about the training or the machine.

    The file's own rules replace the profile's, or with ``extend_profile`` change and join them.
    Rules about a machine are the profile's unless the file names one.
    """
    own, extended = watch.rules, watch.extend_profile
    if own is not None and about is not None:
        own = tuple(config for config in own if _subject(config) == about)
    if own is None or (about == MACHINE and not own):
        own, extended = (), True
    named = {config.rule for config in own}
    others = rule_names(watch.profile, about) if extended else ()
    configs = (*(RuleConfig(name) for name in others if name not in named), *own)
    return tuple(config for config in configs if config.rule not in watch.disable)


def _subject(config: RuleConfig) -> str:
    rule = find_rule(config.rule)
    return TRAINING if rule is None else rule.about

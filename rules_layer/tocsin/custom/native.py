"""A rule written for smdebug, as one that the engine runs: no object outlives a step."""

from __future__ import annotations

import dataclasses
import inspect
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from tocsin.custom.attributes import NotPlain, encode, restored
from tocsin.custom.logged import logged
from tocsin.custom.rule import Rule
from tocsin.custom.smdebug_modules import smdebug_names
from tocsin.model import Outcome, Reason, Verdict
from tocsin.rules import HEALTHY, PROFILES, UNDECIDED, Reads, State, Step, not_applicable
from tocsin.rules import Rule as NativeRule
from tocsin.tensors import Unreadable
from tocsin.trial.exceptions import (
    NoMoreData,
    RuleEvaluationConditionMet,
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
)
from tocsin.trial.tensor import TrialTensor
from tocsin.trial.trial import Trial
from tocsin.words import cut

OTHER_TRIALS = "other_trials"
_MOST_LOGGED = 400  # letters of what a rule logs at a step
_NOT_PARAMETERS = ("action_str", OTHER_TRIALS)
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_ENDED = "ended"
_ATTRIBUTES = "attributes"
# What __init__ of the base makes, and what is found again by name: never a part of the state.
_MADE = ("base_trial", "other_trials", "trials", "req_tensors", "logger", "rule_name")
_CODE = (FunctionType, BuiltinFunctionType, MethodType, ModuleType, type)
_FOUND_AGAIN = (Trial, TrialTensor, logging.Logger, *_CODE)


def native(cls: type[Rule]) -> type[NativeRule]:
    """Return the rule as the engine runs it: itself if it is a native one, else a class whose
    parameters are those of the constructor of ``cls``.
    """
    if cls.evaluate is not Rule.evaluate:
        return cls
    if not cls.is_for_smdebug():
        raise TypeError(f"rule {cls.__name__}: needs reads and evaluate, or invoke_at_step")
    known = list(inspect.signature(cls).parameters.values())[1:]  # the first is the trial
    parameters = {
        each.name: each.default
        for each in known
        if each.name not in _NOT_PARAMETERS and each.kind not in _VARIABLE
    }
    required = inspect.Parameter.empty in parameters.values()
    adapter = _Adapter(cls, parameters, frozenset(each.name for each in known))
    fields: list[Any] = [
        (name, Any, dataclasses.field(default=_shown(default)))
        for name, default in parameters.items()
    ]
    if OTHER_TRIALS in adapter.takes:
        fields.append((OTHER_TRIALS, tuple[str, ...], dataclasses.field(default=())))
    made = dataclasses.make_dataclass(
        cls.__name__,
        fields,
        bases=(NativeRule,),
        frozen=True,
        namespace={
            "__doc__": inspect.getdoc(cls) if cls.__doc__ else f"{cls.__name__} returned True.",
            "profiles": () if required else PROFILES,
            "options": cls.options,
            "sagemaker": cls.sagemaker,
            "causes": cls.causes,
            "advice": cls.advice,
            "reads": lambda self: Reads({}, runs=getattr(self, OTHER_TRIALS, ()), trial=True),
            "evaluate": lambda self, state, step: adapter.evaluate(self, state, step),
        },
    )
    made.__module__, made.__qualname__ = cls.__module__, cls.__qualname__
    return made


def _shown(default: Any) -> Any:
    """A default as a configuration can have it; None leaves others to the constructor."""
    return default if type(default) in (bool, int, float, str) else None


@dataclass(frozen=True)
class _Adapter:
    """Makes a rule for each step, and carries its attributes from step to step."""

    cls: type[Rule]
    defaults: Mapping[str, Any]
    takes: frozenset[str]

    def evaluate(self, of: NativeRule, state: State, step: Step) -> tuple[State, Verdict]:
        if state.get(_ENDED):
            return state, UNDECIDED
        with smdebug_names():
            rule = self._built(of, step.trial)
            fresh = dict(_attributes(rule))
            before = {name: _encoded(value) for name, value in fresh.items()}
            for name, data in state.get(_ATTRIBUTES, {}).items():
                setattr(rule, name, restored(data, fresh.get(name)))
            verdict, ended = self._judged(rule, step.step)
        kept = dict(self._kept(rule, fresh, before))
        return ({_ENDED: True} if ended else {_ATTRIBUTES: kept} if kept else {}), verdict

    def _built(self, of: NativeRule, trial: Any) -> Rule:
        given = {
            name: _like(value, default)
            for name, default in self.defaults.items()
            if (value := getattr(of, name)) is not None or default is inspect.Parameter.empty
        }
        if "action_str" in self.takes:
            given["action_str"] = ""
        if OTHER_TRIALS in self.takes:
            given[OTHER_TRIALS] = [trial.beside(run) for run in getattr(of, OTHER_TRIALS)] or None
        return self.cls(trial, **given)

    def _judged(self, rule: Rule, step: int) -> tuple[Verdict, bool]:
        """The verdict of the rule on the step, and whether it has ended itself."""
        try:
            with logged(rule.logger) as said:
                rule.invoke(step)
        except RuleEvaluationConditionMet as met:
            log = f": {cut('; '.join(said), _MOST_LOGGED)}" if said else ""
            detail = f"{self.cls.__name__} returned True at step {step}{log}"
            evidence = {"step": step}
            verdict = Verdict(Outcome.VIOLATION, Reason.CUSTOM_RULE, detail, evidence=evidence)
            return verdict, met.end_of_rule
        except (TensorUnavailableForStep, TensorUnavailable, StepUnavailable, Unreadable) as error:
            return not_applicable(Reason.NO_TENSOR, str(error)), False
        except (StepNotYetAvailable, NoMoreData) as error:
            return Verdict(Outcome.UNDECIDED, Reason.TOO_EARLY, str(error)), False
        return HEALTHY, False

    def _kept(
        self, rule: Rule, fresh: Mapping[str, Any], before: Mapping[str, Any]
    ) -> Iterator[tuple[str, Any]]:
        """The attributes that are not as the constructor makes them."""
        for name, value in _attributes(rule):
            data = _encoded(value)
            if data is not _NOT_PLAIN:
                if name not in before or data != before[name]:
                    yield name, data
            elif name not in fresh or value is not fresh[name]:
                raise TypeError(
                    f"attribute {name} cannot be kept between two steps: {_why(value)}; "
                    "keep numbers, text, lists, dicts and numpy arrays"
                )


_NOT_PLAIN = object()


def _attributes(rule: Rule) -> Iterator[tuple[str, Any]]:
    for name, value in vars(rule).items():
        if name not in _MADE and not isinstance(value, _FOUND_AGAIN):
            yield name, value


def _encoded(value: Any) -> Any:
    try:
        return encode(value)
    except NotPlain:
        return _NOT_PLAIN


def _why(value: Any) -> str:
    try:
        encode(value)
    except NotPlain as error:
        return str(error)
    return ""


def _like(value: Any, default: Any) -> Any:
    """A value from the wire, where all are strings, as a number where the default is one."""
    if not isinstance(value, str) or type(default) not in (bool, int, float):
        return value
    if type(default) is bool:
        return {"true": True, "false": False}.get(value.strip().lower(), value)
    for number in (int, float):
        try:
            return number(value)
        except ValueError:
            continue
    return value

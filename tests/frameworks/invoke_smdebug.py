"""Prints at which steps rules of a file are met; run by an interpreter that has smdebug."""

from __future__ import annotations

import importlib.util
import json
import sys
from contextlib import suppress

from smdebug.exceptions import NoMoreData, RuleEvaluationConditionMet
from smdebug.rules.rule_invoker import invoke_rule
from smdebug.trials import create_trial


def main() -> None:
    file, run, wanted = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("rules_in_a_file", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    print(json.dumps([met(module, run, *each) for each in json.loads(wanted)]))


def met(module, run, name, parameters):
    """The steps at which smdebug's own ``invoke_rule`` finds the rule's condition met."""
    rule = getattr(module, name)(create_trial(run), **parameters)
    invoke, steps = rule.invoke, []

    def recorded(step):
        try:
            invoke(step)
        except RuleEvaluationConditionMet:
            steps.append(step)
            raise

    rule.invoke = recorded
    with suppress(NoMoreData):  # that is how it ends
        invoke_rule(rule)
    return steps


if __name__ == "__main__":
    main()

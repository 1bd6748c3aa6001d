"""The document of ``tocsin check`` as JUnit XML, which CI systems show as tests: a rule is one."""

from __future__ import annotations

from xml.etree import ElementTree as Xml

from tocsin.cli.not_judged import fails, names_not_judged
from tocsin.cli.output import Document
from tocsin.model import Severity
from tocsin.rules import advice_for, find_rule
from tocsin.words import clean

_MOST = 4000  # characters of a text


def junit(document: Document, fail_on: Severity = Severity.INFO) -> bytes:
    """Return the XML. A rule that fired is a failure if it is as severe as ``fail_on``, else it
    passed with its finding as output; one in Error is an error; one that judged no step is skipped.
    """
    suite = Xml.Element("testsuite", name=_text(document["run"]), tests=str(len(document["rules"])))
    without = names_not_judged(document)
    counts = {"failures": 0, "errors": 0, "skipped": 0}
    for rule in document["rules"]:
        name = rule["RuleConfigurationName"]
        case = Xml.SubElement(
            suite, "testcase", classname=_text(f"tocsin.{rule['Rule']}"), name=_text(name), time="0"
        )
        details = _text(rule["StatusDetails"] or "")
        if rule["RuleEvaluationStatus"] == "Error":
            counts["errors"] += 1
            Xml.SubElement(case, "error", message=details)
        elif rule["RuleEvaluationStatus"] == "IssuesFound":
            if fails(rule, fail_on):
                counts["failures"] += 1
                found = Xml.SubElement(case, "failure", message=details, type=_severity(rule))
            else:
                found = Xml.SubElement(case, "system-out")
            found.text = _finding(rule)
        elif name in without:
            counts["skipped"] += 1
            Xml.SubElement(case, "skipped", message=details or "judged no step")
    suite.attrib.update({key: str(count) for key, count in counts.items()})
    suites = Xml.Element("testsuites")
    suites.append(suite)
    Xml.indent(suites)
    text: bytes = Xml.tostring(suites, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _finding(rule: Document) -> str:
    """Describe a finding: result, place and advice."""
    first, known = rule["FirstViolation"] or {}, find_rule(rule["Rule"])
    lines = [f"{_severity(rule)}: {_text(rule['StatusDetails'] or '')}"]
    if first.get("step") is not None:
        lines.append(f"first at step {first['step']} ({_text(first['worker'] or 'all workers')})")
    if advice := advice_for(known, first.get("tensor")):
        lines.append(f"What to do: {advice}")
    return "\n".join(lines)


def _severity(rule: Document) -> str:
    return str(rule["Severity"] or Severity.WARNING)


def _text(text: str) -> str:
    """``text`` with characters only that XML can carry."""
    return clean(text, _MOST)

"""How a configuration that is wrong is told."""

from __future__ import annotations


class BadWatch(ValueError):
    """A watch file is wrong; the message is one line that says where and how to mend it."""


def plain(error: BaseException, where: str = "") -> str:
    """msgspec's message with the place in our words: ``expected … - at `rules[0]```.

    ``where`` is the place of what was converted, if that was not the whole file.
    """
    text = " ".join(str(error).split())
    if where:
        text = text.replace("`$", f"`{where}") if "`$" in text else f"{text} - at `{where}`"
    text = text.replace("`$.", "`").replace("`$`", "the top level")
    if text[1:2].islower():  # not JSON, YAML
        text = text[0].lower() + text[1:]
    return text[:500]

"""The embedded AWS, for people. What it does is the checkout's own package ``local``."""

from __future__ import annotations

import shlex

from rich.console import Console
from rich.text import Text

from tocsin.cli._look import facts
from tocsin.cli._output import Document
from tocsin.cli._text import plain


def print_up(document: Document, console: Console) -> None:
    """Where things are, and how this shell's AWS becomes the embedded one."""
    console.print(Text("The embedded AWS is up; `tocsin local down` stops it.\n", "bold"))
    console.print(facts({name: text for name, text in document.items() if isinstance(text, str)}))
    console.print(Text("\nTo talk to it from this shell:", "bold"))
    for name, value in document["environment"].items():
        console.print(plain(f"export {name}={shlex.quote(value)}"), soft_wrap=True)


def print_down(document: Document, console: Console) -> None:
    console.print("stopped" if document["stopped"] else "it was not up")

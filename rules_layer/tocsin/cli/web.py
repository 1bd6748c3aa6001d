"""``tocsin watch --web``: the report's page on this machine, drawn again as steps come."""

from __future__ import annotations

import hashlib
import threading
import time
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from tocsin.cli.errors import reason
from tocsin.cli.output import Advance, lines_to_stdout, note, progress
from tocsin.cli.place import saved_steps
from tocsin.cli.run_folder import RunFolder
from tocsin.cli.run_view import RunView, RunWatch
from tocsin.cli.web_index import DEFAULT_SORT, index_page
from tocsin.judge import PAUSE
from tocsin.report import compared, html_of, json_of

LOOPBACK = "127.0.0.1"
_WAITING = (
    '<!doctype html><html lang="en"><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width"><title>Tocsin</title>'
    "<main><h1>{what}</h1></main></html>\n"
)
_MOST_COMPARED = 8
_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "frame-ancestors 'none'",  # beside the page's own
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True)
class Answer:
    """A page, or JSON; None is that there is no such page."""

    body: bytes
    kind: str = "text/html; charset=utf-8"


class Pages(Protocol):
    """The pages served, by path and query. ``prepare`` is the first look, which may take long."""

    def prepare(self, advance: Advance) -> None: ...

    def get(self, path: str, query: Mapping[str, list[str]]) -> Answer | None: ...


@dataclass
class RunPages:
    """The page of one run, under ``base``. Several readers share a look of the last second."""

    run: RunWatch
    base: str = "/"
    _looked: float = -PAUSE
    _drawn: tuple[object, bytes, bytes] | None = None

    def prepare(self, advance: Advance) -> None:
        steps, done = saved_steps(self.run.storage), count(1)
        self.run.look(lambda step: advance(next(done), steps))

    def get(self, path: str, query: Mapping[str, list[str]]) -> Answer | None:
        if path not in (self.base, f"{self.base}report.json"):
            return None
        html, document = self._draw()
        return Answer(html) if path == self.base else Answer(document, "application/json")

    def _draw(self) -> tuple[bytes, bytes]:
        """The page and its JSON: the same bytes while there is nothing new."""
        if (now := time.monotonic()) - self._looked >= PAUSE:
            self.run.look()
            self._looked = now
        if self._drawn is None or self._drawn[0] != self.run.version:
            page = self.run.page()
            html = html_of(page, live=f"{self.base}report.json")
            self._drawn = self.run.version, html.encode(), json_of(page)
        return self._drawn[1:]


@dataclass
class FolderPages:
    """A list of the runs in a folder, the page of each, and a comparison of chosen ones."""

    folder: RunFolder
    _runs: dict[str, RunPages] = field(default_factory=dict)
    _views: Mapping[str, RunView] = field(default_factory=dict)
    _looked: float = -PAUSE

    def prepare(self, advance: Advance) -> None:
        self._views = self.folder.look(advance)

    def get(self, path: str, query: Mapping[str, list[str]]) -> Answer | None:
        if path == "/":
            sort = query.get("sort", [DEFAULT_SORT])[0]
            return Answer(index_page(str(self.folder.folder), self._look(), sort).encode())
        if path == "/compare":
            return self._compare(query.get("run", []))
        name = path.removeprefix("/run/").removesuffix("report.json").removesuffix("/")
        if name not in self.folder.runs:
            self._look()
        if name not in self.folder.runs or not path.startswith("/run/"):
            return None
        pages = self._runs.get(name)
        if pages is None or pages.run is not self.folder.runs[name]:
            pages = self._runs[name] = RunPages(self.folder.runs[name], f"/run/{name}/")
        return pages.get(path, query)

    def _look(self) -> Mapping[str, RunView]:
        if (now := time.monotonic()) - self._looked >= PAUSE:
            self._views = self.folder.look()
            self._looked = now
        return self._views

    def _compare(self, names: list[str]) -> Answer | None:
        runs = [self.folder.runs[name] for name in names if name in self.folder.runs]
        pages = [run.page() for run in runs[:_MOST_COMPARED]]
        return Answer(html_of(compared(pages)).encode()) if pages else None


class WebServer(ThreadingHTTPServer):
    """Serves pages to browsers on this machine, and changes nothing."""

    daemon_threads = True

    def __init__(self, pages: Pages, port: int = 0) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.pages = pages
        self.lock = threading.Lock()  # a run is looked at by one thread at a time
        self.waiting = ""
        """The work before there are pages; empty once there are."""

    def prepare(self) -> None:
        """Evaluate the run in a thread first. Meanwhile each page shows the progress."""
        self.waiting = "evaluating"
        threading.Thread(target=self._prepare, name="tocsin-first-look", daemon=True).start()

    def _prepare(self) -> None:
        try:
            with self.lock, progress("evaluating") as bar:

                def advance(done: int, total: int) -> None:
                    self.waiting = f"evaluating: {done} of {total}"
                    bar(done, total)

                self.pages.prepare(advance)
        except Exception as error:  # noqa: BLE001 - the next request looks again, and says it
            note(reason(error))
        finally:
            self.waiting = ""

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that goes away in the middle of an answer is no error."""

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}/"


def serve(server: WebServer, what: str, *, open_page: bool) -> int:
    """Serve until Ctrl-C, and return the exit code. The first look begins when it listens."""
    lines_to_stdout([f"{what}: {server.url} (press Ctrl-C to stop; the training continues)"])
    if open_page:
        webbrowser.open(server.url)
    server.prepare()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        return 0
    finally:
        server.server_close()
    return 0


def pages_of(folder: Path | None, run: RunWatch) -> Pages:
    """Return the pages of the run, or of the folder of runs if there is one."""
    if folder is None:
        return RunPages(run)
    return FolderPages(RunFolder(folder, run.watch))


class _Handler(BaseHTTPRequestHandler):
    server: WebServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Another site's page cannot read a run: it has another host, or names its origin."""
        hosts = {f"{name}:{self.server.server_port}" for name in (LOOPBACK, "localhost")}
        origin = self.headers.get("Origin")
        if self.headers.get("Host") not in hosts:
            return self._refuse(HTTPStatus.MISDIRECTED_REQUEST)
        if origin is not None and origin not in {f"http://{host}" for host in hosts}:
            return self._refuse(HTTPStatus.FORBIDDEN)
        if self.path == "/favicon.ico":  # browsers ask for one, and log a 404
            return self._send(HTTPStatus.NO_CONTENT, b"", {"Cache-Control": "max-age=86400"})
        if waiting := self.server.waiting:
            return self._wait(waiting)
        asked = urlsplit(self.path)
        try:
            with self.server.lock:
                answer = self.server.pages.get(unquote(asked.path), parse_qs(asked.query))
        except Exception as error:  # noqa: BLE001 - the page says it, and the server goes on
            note(reason(error))
            return self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, reason(error))
        if answer is None:
            return self._refuse(HTTPStatus.NOT_FOUND)
        tag = f'"{hashlib.sha256(answer.body).hexdigest()[:32]}"'
        if self.headers.get("If-None-Match") == tag:
            return self._send(HTTPStatus.NOT_MODIFIED, b"", {"ETag": tag})
        headers = {"ETag": tag, "Content-Type": answer.kind}
        return self._send(HTTPStatus.OK, answer.body, headers)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Requests are not logged."""

    def _wait(self, what: str) -> None:
        """Answer that there is no page yet: with one that reloads after a second, or as JSON."""
        if self.path.endswith(".json"):
            return self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, what)
        page = _WAITING.format(what=escape(what))
        headers = {"Content-Type": "text/html; charset=utf-8", "Refresh": "1"}
        return self._send(HTTPStatus.OK, page.encode(), headers)

    def _refuse(self, status: HTTPStatus, detail: str = "") -> None:
        text = f"{status.value} {status.phrase}{': ' if detail else ''}{detail}\n"
        self._send(status, text.encode(), {"Content-Type": "text/plain; charset=utf-8"})

    def _send(self, status: HTTPStatus, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, **headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

"""``tocsin watch --web``: what is answered, and what is refused."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from tocsin.cli import web
from tocsin.cli.run_view import RunView, RunWatch
from tocsin.cli.web import WebServer, pages_of
from tocsin.model import Mode
from tocsin.tensors import Captured, Collection, LocalStorage, RunWriter

from tests.waiting import becomes


@dataclass
class Browser:
    server: WebServer
    headers: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers={**self.headers, **named})
        answer = connection.getresponse()
        answer.text = answer.read().decode()  # type: ignore[attr-defined]
        connection.close()
        return answer


def write(path: Path, *losses: float, first: int = 0) -> None:
    writer = RunWriter(LocalStorage(path), run_id="r1")
    if first == 0:
        writer.write_collections([Collection("losses", include_regex=("^loss$",))])
    for step, loss in enumerate(losses, first):
        writer.write(step, Mode.TRAIN, step, [Captured("loss", np.float32(loss))])


Serve = Callable[[Path], Browser]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    monkeypatch.setattr(web, "PAUSE", 0.0)  # each request looks
    servers = []

    def made(folder: Path, several: bool = False) -> Browser:
        pages = pages_of(folder if several else None, RunWatch(LocalStorage(folder)))
        servers.append(WebServer(pages))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return Browser(servers[-1])

    yield made
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write(tmp_path / "run", 2.0, 1.0)
    return tmp_path / "run"


def test_the_page_of_a_run_that_grows(serve: Serve, run: Path) -> None:
    browser = serve(run)
    page = browser.get("/")
    assert (page.status, page.getheader("Content-Type")) == (200, "text/html; charset=utf-8")
    assert 'data-live="/report.json"' in page.text
    first = browser.get("/report.json")
    assert json.loads(first.text)["run"]["steps"]["last"] == 1
    tag = first.getheader("ETag")
    assert browser.get("/report.json", If_None_Match=tag).status == 304
    write(run, float("nan"), first=2)
    second = browser.get("/report.json", If_None_Match=tag)
    assert second.status == 200
    assert json.loads(second.text)["verdict"]["step"] == 2


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example:80"}, 421),
        ({"Host": "127.0.0.1:1"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "localhost:{port}", "Origin": "http://localhost:{port}"}, 200),
    ],
)
def test_only_pages_of_this_server_may_read(
    serve: Serve, run: Path, headers: dict[str, str], status: int
) -> None:
    browser = serve(run)
    port = browser.server.server_port
    sent = {name: value.format(port=port) for name, value in headers.items()}
    assert browser.get("/report.json", **sent).status == status


def test_it_listens_on_the_loopback_only(serve: Serve, run: Path) -> None:
    assert serve(run).server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_it_is_read_only(serve: Serve, run: Path, method: str) -> None:
    assert serve(run).get("/", method).status == 501


@pytest.mark.parametrize(
    "path", ["/nothing", "/../../etc/passwd", "/run/../secret/", "/report.json/x", "/run/"]
)
def test_there_is_nothing_else(serve: Serve, tmp_path: Path, run: Path, path: str) -> None:
    write(tmp_path / "folder" / "a", 1.0)
    assert serve(run).get(path).status == 404
    assert serve(tmp_path / "folder", several=True).get(path).status == 404


def test_no_icon_is_no_error(serve: Serve, run: Path) -> None:
    browser = serve(run)
    browser.server.waiting = "evaluating"
    assert browser.get("/favicon.ico").status == 204


def test_a_folder_of_runs(serve: Serve, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    write(folder / "sick", 1.0, float("nan"))
    write(folder / "<b>well", 4.0, 3.0, 2.0)
    browser = serve(folder, several=True)
    page = browser.get("/").text
    assert "<b>well" not in page
    assert "&lt;b&gt;well" in page
    assert "▲ critical" in page
    assert 'aria-label="loss, last 2"' in page
    assert "Training broke at step 1" in page
    by_verdict = browser.get("/?sort=verdict").text
    by_run = browser.get("/?sort=run").text
    assert by_verdict.index("/run/sick/") < by_verdict.index("/run/%3Cb%3Ewell/")
    assert by_run.index("/run/%3Cb%3Ewell/") < by_run.index("/run/sick/")
    assert 'data-live="/run/sick/report.json"' in browser.get("/run/sick/").text
    assert (
        json.loads(browser.get("/run/%3Cb%3Ewell/report.json").text)["verdict"]["level"] == "none"
    )
    compared = browser.get("/compare?run=sick&run=%3Cb%3Ewell&run=unknown").text
    assert "well" in compared
    assert browser.get("/compare").status == 404
    write(folder / "new", 1.0)
    assert "/run/new/" in browser.get("/").text


def test_a_folder_without_runs_says_so(serve: Serve, tmp_path: Path) -> None:
    assert "No run is in this folder yet." in serve(tmp_path, several=True).get("/").text


def test_an_error_is_a_page_and_the_server_goes_on(
    serve: Serve, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = serve(run)
    with monkeypatch.context() as broken:
        broken.setattr(RunWatch, "look", lambda self: (_ for _ in ()).throw(OSError(5, "gone")))
        answer = browser.get("/")
    assert (answer.status, answer.text) == (500, "500 Internal Server Error: files: gone\n")
    assert browser.get("/").status == 200


def test_it_listens_while_it_takes_the_first_look(
    serve: Serve, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, goes_on, looks = serve(run), threading.Event(), RunWatch.look

    def look(self: RunWatch, on_step: Callable[[int], None] = lambda step: None) -> RunView:
        def stepped(step: int) -> None:
            on_step(step)
            goes_on.wait(60)

        return looks(self, stepped)

    monkeypatch.setattr(RunWatch, "look", look)
    browser.server.prepare()
    assert becomes(lambda: "evaluating: 1 of 2" in browser.get("/").text)
    assert browser.get("/").getheader("Refresh") == "1"
    assert browser.get("/report.json").status == 503
    goes_on.set()
    assert becomes(lambda: "data-live" in browser.get("/").text)


def test_a_first_look_that_fails_is_taken_again(
    serve: Serve, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, looks = serve(run), RunWatch.look

    def fails(self: RunWatch, on_step: object = None) -> RunView:
        monkeypatch.setattr(RunWatch, "look", looks)
        raise OSError(5, "gone")

    monkeypatch.setattr(RunWatch, "look", fails)
    browser.server.prepare()
    assert becomes(lambda: "data-live" in browser.get("/").text)

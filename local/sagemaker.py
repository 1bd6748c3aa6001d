"""A server for a part of SageMaker's API: creates, describes, lists, tags and stops jobs."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from local.job import LocalJob, describe
from local.jobs import LocalJobs, RequestError

BODY_LIMIT = 4 * 1024 * 1024  # bytes

_TARGET = re.compile(r"SageMaker\.(\w+)")

Answer = dict[str, Any]


@contextmanager
def serve(port: socket.socket, jobs: LocalJobs) -> Iterator[None]:
    """Answer requests on a bound socket until the block ends, and close the socket."""
    server = _Server(port, jobs)
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True, name="sagemaker")
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _create(jobs: LocalJobs, request: Answer) -> Answer:
    return {"TrainingJobArn": jobs.create(request).arn}


def _describe(jobs: LocalJobs, request: Answer) -> Answer:
    return describe(jobs.get(request["TrainingJobName"]))


def _stop(jobs: LocalJobs, request: Answer) -> Answer:
    jobs.stop(request["TrainingJobName"])
    return {}


def _add_tags(jobs: LocalJobs, request: Answer) -> Answer:
    return _tags(jobs.tag(request["ResourceArn"], {t["Key"]: t["Value"] for t in request["Tags"]}))


def _list_tags(jobs: LocalJobs, request: Answer) -> Answer:
    return _tags(jobs.tag(request["ResourceArn"], {}))


def _tags(tags: Mapping[str, str]) -> Answer:
    return {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}


def _list(jobs: LocalJobs, request: Answer) -> Answer:
    known = {"StatusEquals", "NameContains", "SortBy", "SortOrder", "MaxResults", "NextToken"}
    if unknown := sorted(request.keys() - known):
        raise RequestError(f"ListTrainingJobs does not know {', '.join(unknown)} here")
    sort_by = request.get("SortBy", "CreationTime")
    if sort_by not in _SORT:
        raise RequestError(f"SortBy {sort_by!r} must be one of {', '.join(_SORT)}")
    found = [
        job
        for job in jobs.all()
        if request.get("NameContains", "").lower() in job.name.lower()
        and request.get("StatusEquals", job.status) == job.status
    ]
    found.sort(key=_SORT[sort_by], reverse=request.get("SortOrder") == "Descending")
    start, size = int(request.get("NextToken", 0)), int(request.get("MaxResults", 10))
    answer: Answer = {"TrainingJobSummaries": [_summary(job) for job in found[start:][:size]]}
    if start + size < len(found):
        answer["NextToken"] = str(start + size)
    return answer


_SORT: Mapping[str, Callable[[LocalJob], Any]] = {
    "CreationTime": lambda job: job.changes[0].time,
    "Name": lambda job: job.name,
    "Status": lambda job: job.status,
}


def _summary(job: LocalJob) -> Answer:
    keys = ("TrainingJobName", "TrainingJobArn", "TrainingJobStatus", "CreationTime")
    more = ("LastModifiedTime", *(["TrainingEndTime"] if job.finished else []))
    whole = describe(job)
    return {key: whole[key] for key in (*keys, *more)}


_OPERATIONS: Mapping[str, Callable[[LocalJobs, Answer], Answer]] = {
    "CreateTrainingJob": _create,
    "DescribeTrainingJob": _describe,
    "ListTrainingJobs": _list,
    "StopTrainingJob": _stop,
    "AddTags": _add_tags,
    "ListTags": _list_tags,
}


class _Server(ThreadingHTTPServer):
    request_queue_size = 64

    def __init__(self, port: socket.socket, jobs: LocalJobs) -> None:
        super().__init__(("127.0.0.1", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = socket.socket(fileno=port.detach())
        self.server_address = self.socket.getsockname()
        self.server_activate()
        self.jobs = jobs
        number = self.server_address[1]
        self.names = {f"127.0.0.1:{number}", f"localhost:{number}"}


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 60  # seconds that a connection may be idle

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if self.headers.get("Host") not in self.server.names:
            # A web page whose host name points to this machine must not start processes.
            self._reject(403, "this service is for this machine only")
        elif not size.isdecimal():
            self._reject(411, "Content-Length is missing")
        elif int(size) > BODY_LIMIT:
            self._reject(413, f"the body is larger than {BODY_LIMIT} bytes")
        else:
            self._answer(*self._carry_out(self.rfile.read(int(size))))

    def _carry_out(self, body: bytes) -> tuple[int, Answer]:
        target = _TARGET.fullmatch(self.headers.get("X-Amz-Target", ""))
        operation = _OPERATIONS.get(target[1]) if target else None
        if operation is None:
            return 400, _error("UnknownOperationException", "this operation is not known here")
        try:
            request = json.loads(body or b"{}")
            if not isinstance(request, dict):
                return 400, _error("SerializationException", "the body is not a JSON object")
            return 200, operation(self.server.jobs, request)
        except RequestError as refused:
            return 400, _error(refused.code, str(refused))
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            return 400, _error("SerializationException", f"the body is not JSON: {error}")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            return 400, _error("ValidationException", f"a field is missing or wrong: {error!r}")

    def _reject(self, status: int, message: str) -> None:
        self.close_connection = True  # the rest of the request is not read
        self._answer(status, _error("ValidationException", message))

    def _answer(self, status: int, answer: Answer) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Requests are not logged."""


def _error(code: str, message: str) -> Answer:
    return {"__type": code, "message": message}

"""One process that starts as a function does; prints the CPU seconds that it took as JSON.

    python _cold_start_process.py REQUEST     # JSON: {"clients": […]} or {"event": {…}}

With ``clients`` it imports numpy and boto3 and makes these clients: what a function cannot do
without. With ``event`` it imports the module ``handler`` and has it handle the event; then it also
prints of which services it made clients.
"""

import json
import sys
import time


class Context:
    """As much of an invocation as the functions read."""

    function_name = "cold"
    memory_limit_in_mb = 1024
    invoked_function_arn = "arn:aws:lambda:us-east-1:111122223333:function:cold"
    aws_request_id = "00000000-0000-0000-0000-000000000000"

    def get_remaining_time_in_millis(self):
        return 60_000


def main():
    request = json.loads(sys.argv[1])
    begin = time.process_time()
    import boto3
    import numpy  # noqa: F401

    made, original = [], boto3.client

    def client(service, *args, **kwargs):
        made.append(service)
        return original(service, *args, **kwargs)

    boto3.client = client
    for service in request.get("clients", ()):
        client(service)
    if "event" in request:
        import handler

        imported = time.process_time()
        handler.handler(request["event"], Context())
    else:
        imported = time.process_time()
    end = time.process_time()
    answer = {"cpu": end - begin, "imports": imported - begin, "clients": made}
    print("\n" + json.dumps(answer))


if __name__ == "__main__":
    main()

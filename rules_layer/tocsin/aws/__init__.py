"""AWS, one module per service; `connect` builds the dependencies of each function.

Nothing is imported here: `infra` reads `settings` on machines that have no boto3.
"""

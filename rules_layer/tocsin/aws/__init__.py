"""AWS, one module per service; `connect` builds what each function needs of them.

Nothing is imported here: `infra` reads `settings` on machines that have no boto3.
"""

"""Do a thing once, and remember for longer than any message can come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyInconsistentStateError,
)
from aws_lambda_powertools.utilities.idempotency.serialization.custom_dict import (
    CustomDictSerializer,
)
from aws_lambda_powertools.utilities.typing import LambdaContext

from tocsin.actions._act import Busy, Once
from tocsin.actions._request import Result

_REMEMBERED = 15 * 24 * 3600  # seconds; SQS keeps and redrives a message for 14 days at most
_RESULTS = CustomDictSerializer(msgspec.to_builtins, lambda data: msgspec.convert(data, Result))


def memory(table: str, client: Any) -> DynamoDBPersistenceLayer:
    """The results of actions, as items ``act#…`` of the table. ``client`` is DynamoDB's."""
    return DynamoDBPersistenceLayer(
        table_name=table, key_attr="pk", expiry_attr="expires_at", boto3_client=client
    )


def remembering(store: DynamoDBPersistenceLayer, context: LambdaContext) -> Once:
    """``Once`` for one invocation: what it leaves unfinished may be redone when its time is up."""
    config = IdempotencyConfig(
        expires_after_seconds=_REMEMBERED, hash_function="sha256", lambda_context=context
    )

    def once(key: str, do: Callable[[], Result]) -> Result:
        def perform(*, key: str) -> Result:
            return do()

        first = idempotent_function(
            perform,
            data_keyword_argument="key",
            persistence_store=store,
            config=config,
            output_serializer=_RESULTS,
            key_prefix="act",
        )
        try:
            result: Result = first(key=key)
        except (IdempotencyAlreadyInProgressError, IdempotencyInconsistentStateError):
            raise Busy(f"{key} is being worked on; it is looked at again later") from None
        return result

    return once

"""The checksum of TFRecord files: CRC-32C (Castagnoli), masked."""

from __future__ import annotations

_POLYNOMIAL = 0x82F63B78


def _table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE = _table()


def crc32c(data: bytes | memoryview, crc: int = 0) -> int:
    """CRC-32C of ``data``, going on from ``crc`` of what came before it."""
    table = _TABLE
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def mask(crc: int) -> int:
    """A CRC as it is stored, so that the CRC of data holding CRCs stays meaningful."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

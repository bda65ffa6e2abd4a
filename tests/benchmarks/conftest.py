"""Benchmarks use the same processes as the live tests."""

from tests.live.conftest import kit, smtp

__all__ = ["kit", "smtp"]

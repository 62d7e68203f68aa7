"""The ``files`` back end behaves as a store must."""

from __future__ import annotations

from tests.conformance.backends import FilesBackend
from tests.conformance.stores import StoreConformance


class TestFiles(StoreConformance):
    backend = FilesBackend()

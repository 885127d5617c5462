"""The in-memory engine."""

from holdfast.engine.memory.catalog import MemoryCatalog
from holdfast.engine.memory.engine import MemoryEngine
from holdfast.engine.memory.ledger import MemoryLedger
from holdfast.engine.memory.partition import MemoryPartition

__all__ = ["MemoryCatalog", "MemoryEngine", "MemoryLedger", "MemoryPartition"]

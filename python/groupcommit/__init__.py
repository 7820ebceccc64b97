"""Fast durable writes: concurrent transactions share one commit and one fsync.

>>> import asyncio, groupcommit
>>> async def main():
...     async with groupcommit.connect("app.db") as db:
...         await db.execute("CREATE TABLE IF NOT EXISTS visits (page TEXT)")
...         await db.execute("INSERT INTO visits VALUES (?)", ("/",))  # on disk
...         return await db.fetch_val("SELECT count(*) FROM visits")
>>> asyncio.run(main())
1
"""

from importlib.metadata import version

from groupcommit.blocking import Blocking, Futures
from groupcommit.database import Database, connect
from groupcommit.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InternalError,
    NotRun,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    UnknownOutcome,
)
from groupcommit.types import (
    Once,
    Outcome,
    Param,
    Params,
    Result,
    Statement,
    Stats,
    Summary,
    Transaction,
    TransactionLike,
)

__version__ = version("groupcommit")

__all__ = [
    "Blocking",
    "DataError",
    "Database",
    "DatabaseError",
    "Error",
    "Futures",
    "IntegrityError",
    "InternalError",
    "NotRun",
    "NotSupportedError",
    "Once",
    "OperationalError",
    "Outcome",
    "Param",
    "Params",
    "ProgrammingError",
    "Result",
    "Statement",
    "Stats",
    "Summary",
    "Transaction",
    "TransactionLike",
    "UnknownOutcome",
    "__version__",
    "connect",
]

"""Client of Lineside.

One module for each service (`lineside.spv`, `lineside.transfer`, `lineside.column`, `lineside.hybrid`), each with a
blocking `Client` and an `AsyncClient` for asyncio. The errors are here.
"""

from ._generated import Status
from .errors import Busy, LinesideError, OutcomeUnknown, Refused, Timeout

__version__ = "0.1.0"
__all__ = ["Busy", "LinesideError", "OutcomeUnknown", "Refused", "Status", "Timeout", "__version__"]

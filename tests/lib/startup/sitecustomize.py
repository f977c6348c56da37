"""Read by every Python program that the tests start: one thing that costs much and that no test asks for.

`jsonschema` looks for an optional library that knows international addresses (`iri`), which makes a grammar of them
when it is imported: nearly a second of processor time, half of what a hub takes to start and most of what a server
does. None of the schemas here has such an address, so the library counts as not installed.
"""

import sys

sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # "not there", as `import` understands it

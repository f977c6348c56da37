"""Read by every Python program that the tests start: what costs much when it is imported, and what no test asks for.

`jsonschema` looks for an optional library that knows international addresses (`iri`), which makes a grammar of them
when it is imported: nearly a second of processor time, half of what a hub takes to start and most of what a server
does. None of the schemas here has such an address, so the library counts as not installed; nor is there a duration in
them. And Mako, of which a hub has Alembic make its migrations, would load Pygments to colour the page that tells of an
error in a template: the two together are a tenth of what a hub imports.
"""

import sys

for name in ("rfc3987_syntax", "isoduration", "mako.ext.pygmentplugin"):
    sys.modules[name] = None  # type: ignore[assignment]  # "not there", as `import` understands it

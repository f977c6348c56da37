"""The line magic itself: reads its arguments, asks the agent, hands back a view."""

# IPython's decorators carry no types.
# mypy: disallow-untyped-decorators=False, disallow-untyped-calls=False

from __future__ import annotations

import json

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from jupyter_vgpu.client import UserClient
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.magic.view import SliceView


@magics_class
class VGPUMagics(Magics):
    """Magics about the slice of a GPU that this Jupyter kernel runs in."""

    @magic_arguments()
    @argument("--json", action="store_true", help="Print the slice and its use as JSON.")
    @argument("--help", action="store_true", help="Print this.")
    @line_magic
    def vgpu(self, line: str) -> SliceView | None:
        """Show this notebook's slice of a GPU and what all your processes use of it.

        ``view = %vgpu`` keeps the figures: ``view.slice_info`` and ``view.usage``
        are dictionaries, sizes in bytes.
        """
        try:
            arguments = parse_argstring(self.vgpu, line)
        except UsageError as error:
            raise UsageError(f"%vgpu: {error}; allowed are --json, --help, or nothing at all") from error
        if arguments.help:
            print(self.vgpu.parser.format_help().removeprefix("::\n\n"))  # noqa: T201, a magic speaks in the cell's output
            return None
        view = read_view()
        if arguments.json:
            print(json.dumps(view.as_json(), indent=2))  # noqa: T201, as above
            return None
        return view


def read_view() -> SliceView:
    """Return the slice and its use, or a view that says why there is none."""
    try:
        client = UserClient.from_environment()
        return SliceView(client.slice(), client.usage())
    except VGPUError as error:
        return SliceView(reason=error.reason, message=str(error))

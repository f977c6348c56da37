"""The magics themselves: read their arguments, ask, hand back a view."""

# IPython's decorators carry no types.
# mypy: disallow-untyped-decorators=False, disallow-untyped-calls=False

from __future__ import annotations

import ast
import json
import time
from collections.abc import Callable
from difflib import get_close_matches
from types import CodeType
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from jupyter_vgpu.client import UserClient
from jupyter_vgpu.errors import VGPUError
from jupyter_vgpu.magic.cell import CellCost, CellWatch
from jupyter_vgpu.magic.freed import FreedView, free_caches
from jupyter_vgpu.magic.top import TopView, between, read_top
from jupyter_vgpu.magic.view import SliceView

View = SliceView | TopView | FreedView | CellCost

_SHORTEST_WATCH, _USUAL_WATCH, _LONGEST_WATCH = 1, 60, 3600


@magics_class
class VGPUMagics(Magics):
    """Magics about the slice of a GPU that this Jupyter kernel runs in."""

    @magic_arguments()
    @argument(
        "what",
        nargs="?",
        default="status",
        help="status: the slice and its use (if nothing is given); top: who uses it, and how fast; "
        "free: give back what torch, cupy and jax only cache; watch: top, again and again",
    )
    @argument("--json", action="store_true", help="Print it as JSON; what is watched, one object a line.")
    @argument("--seconds", help="How long to watch, 1 to 3600 (if not given: 60); interrupt to end it earlier.")
    @argument("--help", action="store_true", help="Print this.")
    @line_cell_magic
    def vgpu(self, line: str, cell: str | None = None) -> View | None:
        """Show this notebook's slice of a GPU and what all your processes use of it.

        As a cell magic, ``%%vgpu``, run the cell and show what it cost: peak memory, GPU time, time waited,
        launches and those of them that were held back. It counts torch's peak anew.

        ``view = %vgpu`` keeps the figures: ``view.slice_info`` and ``view.usage``
        are dictionaries, sizes in bytes.
        """
        # A traceback is the cell's own. source: IPython, core/ultratb.py
        __tracebackhide__ = True
        try:
            arguments = parse_argstring(self.vgpu, line)
        except UsageError as error:
            raise UsageError(f"%vgpu: {error}; allowed are {_ALLOWED}{_meant(line)}") from error
        if arguments.help:
            _say(self.vgpu.parser.format_help().removeprefix("::\n\n"))
            return None
        if cell is not None:
            return self._measure(cell, arguments)
        if arguments.what == "watch":
            _watch(_watch_seconds(arguments.seconds), arguments.json)
            return None
        views: dict[str, Callable[[], View]] = {"status": read_view, "top": read_top, "free": free_caches}
        if arguments.what not in views:
            raise UsageError(f"%vgpu: {arguments.what!r} is not known; allowed are {_ALLOWED}{_meant(line)}")
        if arguments.seconds is not None:
            raise UsageError(f"%vgpu: --seconds is for `%vgpu watch`; {arguments.what} takes --json, or nothing at all")
        view: View = views[arguments.what]()
        return _shown(view, arguments.json)

    def _measure(self, cell: str, arguments: Any) -> View | None:
        __tracebackhide__ = True
        if arguments.what != "status":
            raise UsageError(f"%%vgpu: {arguments.what!r} is not known; {_ALLOWED_ABOVE_A_CELL}")
        if arguments.seconds is not None:
            raise UsageError(f"%%vgpu: --seconds is for `%vgpu watch`; {_ALLOWED_ABOVE_A_CELL}")
        shell = self.shell
        assert shell is not None
        source = shell.transform_cell(cell)
        if shell.should_run_async(cell, transformed_cell=source):
            raise UsageError("%%vgpu: a cell with `await` outside a function is not measured; put it into one")
        # Newer shells count before they run a cell, older ones after it.
        running = shell.displayhook.exec_result
        number = (running and running.execution_count) or shell.execution_count
        name = shell.compile.cache(source, number, raw_code=cell)
        tree = shell.transform_ast(ast.parse(source, name))
        # The shell's own compiler knows the `from __future__` lines of the cells before.
        compile_tree: Callable[..., CodeType] = shell.compile
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
            last = ast.Expression(tree.body.pop().value)
        watch = CellWatch()
        try:
            with watch:
                exec(compile_tree(tree, name, "exec"), shell.user_ns)
                value = None if last is None else eval(compile_tree(last, name, "eval"), shell.user_ns)
        except BaseException:
            # The cost stands above the traceback, which is the cell's own.
            if watch.is_of_this_process and (view := _shown(watch.cost(), arguments.json)) is not None:
                display(view)
            raise
        if value is not None:
            display(value)
        # A child that the cell forked comes here too; what it used is in its parent's cost.
        return _shown(watch.cost(), arguments.json) if watch.is_of_this_process else None


_WORDS = ("status", "top", "free", "watch", "--json", "--seconds", "--help")
_ALLOWED = f"{', '.join(_WORDS)}, or nothing at all"
_ALLOWED_ABOVE_A_CELL = "allowed are --json, --help, or nothing at all"


def _meant(line: str) -> str:
    """Return a question about the first word that is nearly one of `_WORDS`; nothing where there is none."""
    for word in line.split():
        if word not in _WORDS and (near := get_close_matches(word.lower(), _WORDS, 1)):
            return f". Did you mean {near[0]}?"
    return ""


def read_view() -> SliceView:
    """Return the slice and its use, or a view that says why there is none."""
    try:
        client = UserClient.from_environment()
        return SliceView(client.slice(), client.usage())
    except VGPUError as error:
        return SliceView(reason=error.reason, message=str(error))


def _shown(view: View, as_json: bool) -> View | None:
    if not as_json:
        return view
    _say(json.dumps(view.as_json(), indent=2))
    return None


def _say(text: str) -> None:
    print(text)  # noqa: T201, a magic speaks in the cell's output


def _watch_seconds(text: str | None) -> int:
    if text is None:
        return _USUAL_WATCH
    if not text.isascii() or not text.isdigit() or not _SHORTEST_WATCH <= int(text) <= _LONGEST_WATCH:
        raise UsageError(f"%vgpu watch: --seconds {text!r} is not allowed; a whole number of seconds, 1 to 3600, is")
    return int(text)


def _watch(seconds: int, as_json: bool) -> None:
    """Show who uses the slice, once a second, in the same place; an interrupt ends it."""
    end = time.monotonic() + seconds
    handle = None
    try:
        client = UserClient.from_environment()
        before = client.usage()
        while time.monotonic() < end:
            time.sleep(1.0)
            now = client.usage()
            view = between(before, now)
            before = now
            if as_json:
                _say(json.dumps(view.as_json()))
            elif handle is None:
                handle = display(view, display_id=True)
            else:
                handle.update(view)
    except KeyboardInterrupt:
        if not as_json:
            _say("watched until it was interrupted")
    except VGPUError as error:
        last = TopView([], reason=error.reason, message=str(error))
        _say(json.dumps(last.as_json()) if as_json else repr(last))

"""The command `jupyter vgpu VERB`.

Each verb imports what it needs when it runs, so that none waits for another's libraries.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from jupyter_vgpu.cli.parser import parse
from jupyter_vgpu.errors import BadValueError, VGPUError
from jupyter_vgpu.variables import refuse_misspelt

__all__ = ["main"]

EXIT_BAD_VALUE = 2
EXIT_FAILED = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code: 0 done, 1 failed, 2 bad value; `run` returns its command's.

    Args:
        arguments: Without the program's name; `None` = the command line's.
    """
    parsed = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        refuse_misspelt(os.environ)
        return _run_verb(parsed)
    except VGPUError as error:
        print(f"jupyter vgpu {parsed.verb}: {error}", file=sys.stderr)
        return EXIT_BAD_VALUE if isinstance(error, BadValueError) else EXIT_FAILED
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `jupyter vgpu claims | head`
        sys.stderr.close()
        return EXIT_FAILED


def _run_verb(parsed: object) -> int:
    from importlib import import_module

    verb = str(getattr(parsed, "verb")).replace("-", "_")  # noqa: B009  (argparse's namespace has no types)
    module = {"run": "run", "agent": "serve", "devices": "listing", "claims": "listing", "status": "status"}
    return int(getattr(import_module(f"jupyter_vgpu.cli.{module.get(verb, verb)}"), verb)(parsed))

"""Every refusal this package can give, each with a stable name.

Raise early, catch at the edge of a process: `hub` turns one into a
`SpawnException(reason=…)`, the agent into an HTTP status, `cli` into an exit code.
"""

from __future__ import annotations

from typing import ClassVar


class VGPUError(Exception):
    """Root of all errors of this package.

    The message says what was asked, what there was, and what would work.

    Attributes:
        reason: Stable name for metrics, HTTP bodies and `SpawnException(reason=)`.
        http_status: Status of the agent's answer that carries this error.
    """

    reason: ClassVar[str] = "error"
    http_status: ClassVar[int] = 500


class BadValueError(VGPUError):
    """A value that is not allowed where it stands. Nothing was changed."""

    reason = "bad-value"
    http_status = 400

    def __init__(self, key: str, value: object, allowed: str) -> None:
        """Say which value is wrong and what is right.

        Args:
            key: Name of the setting, as the reader of the message wrote it.
            value: What stood there.
            allowed: What may stand there, as the end of a sentence.
        """
        super().__init__(f"{key}: {value!r} is not allowed; {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed

    @classmethod
    def missing(cls, key: str, allowed: str) -> BadValueError:
        """Return the error where a value has to be given and was not; its value is `None`."""
        error = cls(key, None, allowed)
        error.args = (f"{key}: nothing was given; {allowed}",)
        return error


class NoCapacityError(VGPUError):
    """No device has room for the slice; the message names the largest that would fit."""

    reason = "no-capacity"
    http_status = 409


class AgentUnreachableError(VGPUError):
    """No node agent answers within the time limit."""

    reason = "agent-unreachable"
    http_status = 503


class BusyError(VGPUError):
    """What was asked is being done for somebody else, and only one can have it at a time."""

    reason = "busy"
    http_status = 409


class NotAuthorizedError(VGPUError):
    """The caller is not who may ask for this."""

    reason = "not-authorized"
    http_status = 403


class UnknownClaimError(VGPUError):
    """No such claim: it never was, or it has been released."""

    reason = "unknown-claim"
    http_status = 404


class UnknownDeviceError(VGPUError):
    """This node has no such device."""

    reason = "unknown-device"
    http_status = 404


class NoDriverError(VGPUError):
    """No NVIDIA driver, or none that answers."""

    reason = "no-driver"
    http_status = 503


class NativeLibraryError(VGPUError):
    """A native library of this package is missing, does not load, or is of another version."""

    reason = "native-library"
    http_status = 500


def _descendants(root: type[VGPUError]) -> list[type[VGPUError]]:
    children = root.__subclasses__()
    return children + [below for child in children for below in _descendants(child)]


def error_from_reason(reason: str, message: str) -> VGPUError:
    """Return the error that `reason` stands for, with `message` as its text.

    An unknown reason, of a newer agent say, becomes a plain `VGPUError`.
    """
    for kind in _descendants(VGPUError):
        if kind.reason == reason:
            error = kind.__new__(kind)
            Exception.__init__(error, message)
            return error
    return VGPUError(message)

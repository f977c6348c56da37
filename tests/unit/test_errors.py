"""Errors keep their name and status over the wire."""

from __future__ import annotations

import pytest

from jupyter_vgpu import errors

CHILDREN = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.VGPUError)]


def test_reasons_are_unique() -> None:
    assert len({child.reason for child in CHILDREN}) == len(CHILDREN)


@pytest.mark.parametrize("child", CHILDREN)
def test_an_error_comes_back_from_its_reason(child: type[errors.VGPUError]) -> None:
    error = errors.error_from_reason(child.reason, "what was asked, and what would work")

    assert type(error) is child
    assert str(error) == "what was asked, and what would work"


def test_a_reason_of_a_newer_agent_is_still_an_error() -> None:
    error = errors.error_from_reason("from-the-future", "message")

    assert type(error) is errors.VGPUError
    assert str(error) == "message"

"""Other preload libraries: their settings for each tenant, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from governor.peers import Mps, PreloadPeer
from governor.work import BURN, capped, equal


def test_a_peer_s_settings_are_filled_in_for_each_tenant(tmp_path: Path) -> None:
    library = tmp_path / "libother.so"
    library.touch()
    peer = PreloadPeer("other", library, ["SM_LIMIT={ceiling}", "MEMORY={memory_mib}m", "FILE=/tmp/{number}.cache"])

    told = peer.environment(capped(BURN, 25)[0], 3)

    assert told == {
        "LD_PRELOAD": str(library),
        "SM_LIMIT": "25",
        "MEMORY": "2048m",
        "FILE": "/tmp/3.cache",
    }


@pytest.mark.parametrize(
    "setting", ["SM_LIMIT", "=5", "A={cap}", "A={", "A={0}"],
    ids=["no value", "no name", "an unknown word", "half a word", "a place"],
)  # fmt: skip
def test_a_setting_that_means_nothing_is_refused(tmp_path: Path, setting: str) -> None:
    library = tmp_path / "libother.so"
    library.touch()

    with pytest.raises(ValueError, match="--peer-env"):
        PreloadPeer("other", library, [setting])


def test_a_library_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no file"):
        PreloadPeer("other", tmp_path / "libother.so", [])


def test_the_nearest_thing_that_mps_has_to_a_ceiling_is_a_part_of_the_sms() -> None:
    mps = Mps()

    assert mps.environment(capped(BURN, 10)[0], 0) == {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "10"}
    assert mps.environment(equal(BURN, 2)[0], 0) == {}

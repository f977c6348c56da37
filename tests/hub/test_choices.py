"""What users may ask for, on whatever path it comes."""

from __future__ import annotations

import pytest

from jupyter_vgpu.config import parse_profiles
from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.hub.choices import profile_of, split_form

PROFILES = parse_profiles(
    {"1/4 GPU": {"share": "1/4"}, "half": {"share": "1/2", "default": True}, "100 %": {"share": 1}}
)


def test_the_named_profile_is_chosen() -> None:
    assert profile_of({"vgpu_profile": "1/4 GPU"}, PROFILES, others_allowed=False).name == "1/4 GPU"


def test_who_asks_for_nothing_gets_the_default() -> None:
    assert profile_of({}, PROFILES, others_allowed=False).name == "half"


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("2/4 GPU", id="an unknown name"),
        pytest.param("1/4 gpu", id="another case"),
        pytest.param("1/4 GPU\n", id="a newline at the end"),
        pytest.param("1/4 GPU\nhalf", id="a newline within"),
        pytest.param(" 1/4 GPU", id="a space before"),
        pytest.param("", id="nothing"),
        pytest.param(["1/4 GPU"], id="a list"),
        pytest.param({"share": 1}, id="a profile of one's own"),
        pytest.param(None, id="null"),
        pytest.param(True, id="true"),
        pytest.param(0.25, id="a number"),
        pytest.param("x" * 100_000, id="a novel"),
    ],
)
def test_what_is_no_profile_is_refused_with_what_is(value: object) -> None:
    with pytest.raises(BadValueError) as refused:
        profile_of({"vgpu_profile": value}, PROFILES, others_allowed=True)

    assert "one of '1/4 GPU', 'half', '100 %' is" in str(refused.value)
    assert len(str(refused.value)) < 300
    assert "\n" not in str(refused.value)


def test_a_key_that_nobody_reads_is_refused_by_name() -> None:
    with pytest.raises(BadValueError, match=r"user_options\['memory'\].*only the key vgpu_profile is"):
        profile_of({"vgpu_profile": "half", "memory": "80GiB"}, PROFILES, others_allowed=False)


def test_a_key_of_the_wrapped_spawner_is_left_to_it() -> None:
    assert profile_of({"image": "lab", "vgpu_profile": "half"}, PROFILES, others_allowed=True).name == "half"


def test_a_form_is_split_into_ours_and_the_rest() -> None:
    ours, rest = split_form({"vgpu_profile": ["half"], "image": ["lab"], "_xsrf": ["2|x"]})

    assert ours == {"vgpu_profile": "half"}
    assert rest == {"image": ["lab"]}


def test_a_form_without_our_part_has_none() -> None:
    assert split_form({"image": ["lab"]}) == ({}, {"image": ["lab"]})


@pytest.mark.parametrize("values", [["half", "1/4 GPU"], [], "half"], ids=["two", "none", "no list"])
def test_a_profile_that_is_not_given_once_is_refused(values: object) -> None:
    with pytest.raises(BadValueError, match="vgpu_profile"):
        split_form({"vgpu_profile": values})

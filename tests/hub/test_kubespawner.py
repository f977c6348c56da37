"""KubeSpawner's `profile_list` and our profiles stand side by side, each read by its owner. No cluster is needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes_asyncio.config import kube_config
from kubespawner import KubeSpawner
from tornado import web
from traitlets.config import Config

from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.hub import LocalInjector, VGPUHub, with_vgpu

PROFILE_LIST = [
    {
        "display_name": "Course",
        "slug": "course",
        "default": True,
        "kubespawner_override": {"mem_limit": "2G"},
        "profile_options": {
            "image": {
                "display_name": "Image",
                "choices": {
                    "old": {"display_name": "Old", "kubespawner_override": {"image": "lab:old"}},
                    "new": {"display_name": "New", "kubespawner_override": {"image": "lab:new"}},
                },
            }
        },
    },
    {"display_name": "Plain", "slug": "plain"},
]

NO_CLUSTER = {
    "current-context": "none",
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
    "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "none", "user": {}}],
}

pytestmark = pytest.mark.asyncio
Make = Callable[..., Any]


@pytest.fixture
def make(agent: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Return a function that makes a KubeSpawner with slices, as it would be in a hub that has this configuration."""
    # KubeSpawner wants to know of a cluster; this one is never asked.
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "kube.json"))
    (tmp_path / "kube.json").write_text(json.dumps(NO_CLUSTER))
    spawner_class = with_vgpu(KubeSpawner, injector=LocalInjector(as_hub_user=True))

    def make(**settings: Any) -> Any:
        c = Config()
        c.VGPUHub.agent = str(agent.runtime_dir)
        c.VGPUHub.ledger_url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
        c.VGPUHub.profiles = {"1/4 GPU": {"share": "1/4"}, "1/2 GPU": {"share": "1/2"}}
        c.KubeSpawner.update(settings)
        spawner = spawner_class(_mock=True, config=c)
        spawner.user = SimpleNamespace(name="ada", id=1, groups=[], url="/user/ada/", escaped_name="ada")
        return spawner

    yield make
    if VGPUHub.initialized():
        VGPUHub.instance().desk.ledger.close()
        VGPUHub.clear_instance()


@pytest.mark.parametrize("profile_list", [PROFILE_LIST, lambda _: PROFILE_LIST], ids=["a list", "a function"])
async def test_the_admins_profiles_and_ours_are_on_one_page(make: Make, profile_list: Any) -> None:
    kube = make(profile_list=profile_list)

    form = await kube.get_options_form()

    assert 'name="profile"' in form
    assert "Course" in form
    assert 'name="vgpu_profile"' in form
    assert "4 of 4 free now." in form


async def test_each_reads_its_own_part_of_what_is_sent(make: Make) -> None:
    kube = make(profile_list=PROFILE_LIST)
    sent = {"profile": ["course"], "profile-option-course--image": ["new"], "vgpu_profile": ["1/2 GPU"]}

    kube.user_options = await kube.run_options_from_form(sent)
    await kube.load_user_options()

    assert kube.user_options == {"profile": "course", "image": "new", "vgpu_profile": "1/2 GPU"}
    assert kube.image == "lab:new"
    assert kube.mem_limit == 2 << 30
    assert kube._vgpu_profile().name == "1/2 GPU"


@pytest.mark.parametrize(
    "sent",
    [
        {"profile": ["course"], "vgpu_profile": ["all of it"]},
        {"profile": ["course"], "vgpu_profile": ["1/4 GPU", "1/2 GPU"]},
        {"profile": ["course"], "vgpu_profile": ["1/4 GPU\n"]},
    ],
    ids=["no such profile", "two", "a newline"],
)
async def test_a_profile_of_ours_that_is_none_is_refused_beside_one_of_theirs(make: Make, sent: Any) -> None:
    kube = make(profile_list=PROFILE_LIST)

    with pytest.raises(web.HTTPError) as refused:
        await kube.run_options_from_form(sent)

    assert refused.value.status_code == 400


async def test_without_a_profile_list_there_are_ours_alone_and_other_keys_are_refused(make: Make) -> None:
    kube = make()

    form = await kube.get_options_form()
    kube.user_options = {"vgpu_profile": "1/4 GPU", "namespace": "kube-system"}

    assert 'name="profile"' not in form
    assert 'name="vgpu_profile"' in form
    with pytest.raises(web.HTTPError, match="only the key vgpu_profile is"):
        kube._vgpu_profile()


async def test_kubespawner_is_refused_as_long_as_nobody_says_how_edits_reach_its_pods() -> None:
    with pytest.raises(BadValueError, match="KubeSpawner"):
        with_vgpu(KubeSpawner)

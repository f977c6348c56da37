"""What the service is told at its start, in a file that only the hub's user may read: a URL may hold a password.

Where the hub starts the service, that is no file on a disk, and it goes with the hub.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jupyter_vgpu.client import Endpoint, parse_endpoints
from jupyter_vgpu.errors import BadValueError
from jupyter_vgpu.scopes import SETTINGS_VARIABLE


class ServiceSettings(BaseModel):
    """Where things are.

    Attributes:
        agent: Runtime directory of the node's agent; not used where there are `agents`.
        agents: Where the agents of several nodes are: node → what `parse_endpoint` reads.
        ledger_url: SQLAlchemy URL of the hub's ledger.
        hub_name: How the hub is called at its agents; empty = as the ledger keeps it.
        hub_pid: Process of the hub, with which the service ends; 0 = it does not.
        sample_seconds: Seconds between two readings of what claims use, for the ledger.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    agent: Annotated[str, Field(min_length=1)]
    agents: dict[str, dict[str, str]] = {}
    ledger_url: Annotated[str, Field(min_length=1)]
    hub_name: str = ""
    hub_pid: Annotated[int, Field(ge=0)] = 0
    sample_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 15.0

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """The agents of several nodes, by the nodes' names.

        Raises:
            BadValueError: One is not understood, or a file of its is gone.
        """
        return parse_endpoints(self.agents, "agents")


def read_settings(environment: Mapping[str, str]) -> ServiceSettings:
    """Return what the file says that the environment names.

    Raises:
        BadValueError: There is none, or it is not understood.
    """
    path = environment.get(SETTINGS_VARIABLE, "")
    names = ", ".join(ServiceSettings.model_fields)
    try:
        return ServiceSettings.model_validate_json(Path(path).read_bytes())
    except ValidationError as error:
        # Not pydantic's own words, which repeat what was written: a URL may hold a password.
        wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'all of it'}: {e['msg']}" for e in error.errors())
        raise BadValueError(SETTINGS_VARIABLE, path, f"a JSON object with {names} is ({wrong})") from None
    except OSError as error:
        raise BadValueError(SETTINGS_VARIABLE, path, f"the path of a JSON object with {names} is ({error})") from error

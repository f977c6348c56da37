"""Databases for the ledger: SQLite, and a real PostgreSQL of our own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text


def programs_of_postgresql() -> Path | None:
    """Return the folder with `initdb` and `postgres`; Debian keeps them off the path."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    return max((path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")), default=None)


class Postgres:
    """A server of our own on a Unix socket, its files in a folder that goes with it."""

    def __init__(self, programs: Path) -> None:
        self.programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))
        # The server refuses to run as root. source: PostgreSQL manual, 19.1 "The PostgreSQL User Account"
        self.user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        if os.getuid() == 0:
            shutil.chown(self.folder, self.user)
            self.folder.parent.chmod(0o711)  # the run's temporary folder is root's alone
        self.process: subprocess.Popen[bytes] | None = None
        command = [str(programs / "initdb"), "-D", str(self.folder / "data"), "-A", "trust", "-U", "ledger", "-N"]
        try:
            subprocess.run(command, check=True, capture_output=True, cwd="/", timeout=300, **self._who())
        except subprocess.CalledProcessError as error:
            shutil.rmtree(self.folder)
            raise AssertionError(error.stderr.decode()) from error

    def _who(self) -> dict[str, object]:
        if os.getuid() != 0:
            return {}
        return {"user": self.user, "group": self.user, "extra_groups": []}

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://ledger@/postgres?host={self.folder}"

    def start(self) -> None:
        command = [str(self.programs / "postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder), "-h", ""]
        self.process = subprocess.Popen(
            command, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self._who()
        )
        ready = [str(self.programs / "pg_isready"), "-h", str(self.folder)]
        for _ in range(1200):
            if subprocess.run(ready, capture_output=True).returncode == 0:
                return
            subprocess.run(["sleep", "0.1"], check=True)
        raise AssertionError("PostgreSQL does not start")

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)  # "fast": ends connections
            self.process.wait(120)


@pytest.fixture(scope="module")
def postgres_of_the_run() -> Iterator[Postgres]:
    programs = programs_of_postgresql()
    if programs is None:
        pytest.skip("needs PostgreSQL's programs: apt-get install postgresql (tools/setup.sh test does)")
    server = Postgres(programs)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.folder)


@pytest.fixture
def postgres(postgres_of_the_run: Postgres) -> Iterator[Postgres]:
    """The server, running, with an empty database after the test."""
    yield postgres_of_the_run
    engine = create_engine(postgres_of_the_run.url)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE; CREATE SCHEMA public"))
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    return request.getfixturevalue("postgres").url

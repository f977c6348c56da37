"""Processes of a benchmark: one that does not answer is an error, and none is left."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from bench.processes import Worker, WorkerError

WAIT_SECONDS = 60.0


def worker(tmp_path: Path, program: str) -> Worker:
    return Worker("w", [sys.executable, "-c", program], os.environ, tmp_path / "log")


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_an_answer_may_come_in_pieces(tmp_path: Path) -> None:
    one = worker(
        tmp_path,
        "for part in ('[1, ', '2]', chr(10), 'x', chr(10)):\n print(part, end='', flush=True)\ninput()",
    )
    try:
        assert one.hear_json(WAIT_SECONDS) == [1, 2]
        with pytest.raises(WorkerError, match="said 'x'"):
            one.hear_json(WAIT_SECONDS)
    finally:
        one.end()


def test_who_says_nothing_is_given_up(tmp_path: Path) -> None:
    one = worker(tmp_path, "input()")
    try:
        with pytest.raises(WorkerError, match="w: said nothing for 0 s"):
            one.hear(0.1)
    finally:
        one.end()


def test_who_ends_is_heard_with_its_last_words(tmp_path: Path) -> None:
    one = worker(tmp_path, "raise SystemExit('no such device')")
    try:
        with pytest.raises(WorkerError, match=r"w: ended.*no such device"):
            one.hear(WAIT_SECONDS)
        one.process.wait()
        with pytest.raises(WorkerError, match="ended with code 1"):
            one.tell("run")
    finally:
        one.end()


def test_what_a_worker_has_started_ends_with_it(tmp_path: Path) -> None:
    one = worker(
        tmp_path,
        "import subprocess, sys\nprint(subprocess.Popen(['sleep', '600']).pid, flush=True)\ninput()",
    )
    child = int(one.hear(WAIT_SECONDS))
    assert is_alive(child)

    one.end()

    deadline = time.monotonic() + WAIT_SECONDS
    while is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_alive(child)
    one.end()  # twice is once

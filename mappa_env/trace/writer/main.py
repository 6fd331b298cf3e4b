"""The process that writes: encodes the episodes of its sender's stores, and appends them to their files."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

from mappa_env.json_and_yaml import read_json
from mappa_env.trace.appending import Appender
from mappa_env.trace.writer.messages import (
    Answer,
    Close,
    Done,
    Episode,
    Failed,
    Open,
    Request,
    Settle,
    encoded,
    request,
    trajectory_in,
)
from mappa_env.trace.writer.parts import Receiver, Sender


def run(descriptor: int) -> None:
    """Do what the socket ``descriptor`` says, until the last of it is done and the other side has ended.

    Signals that end a group of processes are for the one that records: this one writes what is left.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=descriptor) as link:
        service, receiver = _Service(Sender(link)), Receiver(link)
        while (message := receiver.next()) is not None:
            service.do(request(message))


class _Service:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._files: dict[int, Appender] = {}

    def do(self, message: Request) -> None:
        """Do one thing, and say how it went if that is wanted or it failed."""
        if not isinstance(message, Settle):
            try:
                self._try(message)
            except (OSError, ValueError) as error:
                code = error.errno if isinstance(error, OSError) else None
                self._say(Failed(message.store, code, str(error)))
        if not isinstance(message, Episode):
            self._say(Done(message.ask))

    def _try(self, message: Open | Episode | Close) -> None:
        if isinstance(message, Open):
            file = Appender(
                Path(os.fsdecode(message.path)),
                card=read_json(message.card),
                about=read_json(message.about),
                packs=message.packs,
                environment=dict(map(_text, message.environment.items())),
            )
            file.open()
            self._files[message.store] = file
        elif isinstance(message, Close):
            self._files.pop(message.store).close()
        else:
            self._files[message.store].append(trajectory_in(message), message.sizes)

    def _say(self, answer: Answer) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # nobody is left to hear it
            self._sender.send(encoded(answer))


def _text(variable: tuple[bytes, bytes]) -> tuple[str, str]:
    return os.fsdecode(variable[0]), os.fsdecode(variable[1])

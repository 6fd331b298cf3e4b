"""The process that writes: encodes the episodes of its sender's stores, and appends them to their files."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

from mappa_env.errors import DataError
from mappa_env.json_and_yaml import read_json
from mappa_env.trace.appending import Appender
from mappa_env.trace.writer.messages import (
    LAST,
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
    """Do what the socket ``descriptor`` says, until the last of it is done and the other side has ended."""
    with socket.socket(fileno=descriptor) as link:
        service, receiver = _Service(Sender(link)), Receiver(link)
        while (message := receiver.next()) is not None:
            service.do(request(message))
        service.end()


class _Service:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._files: dict[int, Appender] = {}

    def do(self, message: Request) -> None:
        """Do one thing, and say how it went if that is wanted or it failed."""
        if not isinstance(message, Settle):
            try:
                self._try(message)
            except Exception as error:  # noqa: BLE001 - one episode must not take those of others along
                self._say(_failed(message.store, error))
        if not isinstance(message, Episode):
            self._say(Done(message.ask))

    def end(self) -> None:
        """Say that all is done."""
        self._say(Done(LAST))

    def _try(self, message: Open | Episode | Close) -> None:
        if isinstance(message, Open):
            file = Appender(
                Path(os.fsdecode(message.path)),
                card=read_json(message.card),
                about=read_json(message.about),
                packs=False,  # that would keep the other stores waiting
                environment=dict(map(_text, message.environment.items())),
            )
            file.open()
            self._files[message.store] = file
        elif isinstance(message, Close):
            if (closed := self._files.pop(message.store, None)) is not None:
                closed.close()
        else:
            self._files[message.store].append(trajectory_in(message), message.sizes)

    def _say(self, answer: Answer) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # nobody is left to hear it
            self._sender.send(encoded(answer))


def _failed(store: int, error: Exception) -> Failed:
    if isinstance(error, OSError):
        name = error.filename
        path = os.fsdecode(name) if isinstance(name, (str, bytes)) else ""
        return Failed(store, error.errno or 0, error.strerror or str(error), path)
    reason = str(error) if isinstance(error, DataError) else f"{type(error).__name__}: {error}"
    return Failed(store, None, reason, "")


def _text(variable: tuple[bytes, bytes]) -> tuple[str, str]:
    return os.fsdecode(variable[0]), os.fsdecode(variable[1])

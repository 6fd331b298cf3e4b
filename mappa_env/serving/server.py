"""The server of an environment, on the loopback interface unless there is a token."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mappa_env import __version__
from mappa_env.envs.gym_env import SelfPlayEnv, make_env
from mappa_env.errors import OptionError
from mappa_env.registration import card_of, id_of
from mappa_env.serving.limits import Limits
from mappa_env.serving.loopback import is_loopback
from mappa_env.serving.token import HINT, VARIABLE, token


@dataclass(frozen=True, slots=True)
class Server:
    """Serves ``env`` with ``options`` (of ``gym.make``) at ``host`` and ``port``; port 0: any free one."""

    env: str
    options: Mapping[str, Any]
    host: str
    port: int
    limits: Limits

    def run(self, ready: Callable[[str], None]) -> None:
        """Serve until SIGTERM or Ctrl-C; ``ready`` gets the address when it can be called.

        Raises OptionError for an address that cannot be used, and what the environment raises.
        """
        shown = checked_token(self.host)
        try:
            import uvicorn

            from mappa_env.serving.app import Door, make_app
        except ImportError as error:
            raise OptionError(
                f"serving needs starlette and uvicorn: pip install 'mappa[serve]' ({error})."
            ) from None
        from mappa_env.serving.hosted import Hosted

        env_id, card = id_of(self.env), card_of(self.env)

        def make() -> SelfPlayEnv:
            return make_env(card, **self.options)

        first = make()  # what it raises is known before anybody calls
        about, task_ids = self._about(env_id, first), list(first.team_env.task_ids)
        first.close()
        hosted = Hosted(make, self.limits)
        with _bound(self.host, self.port) as listener:
            address = listener.getsockname()
            name = f"[{address[0]}]" if ":" in address[0] else address[0]
            config = uvicorn.Config(
                make_app(hosted, about, task_ids, self.limits, Door(shown)),
                log_level="warning",
                access_log=False,
                server_header=False,
                ws="none",
                timeout_graceful_shutdown=int(self.limits.stop_s) or 1,
            )
            ready(f"http://{name}:{address[1]}")
            uvicorn.Server(config).run(sockets=[listener])

    def _about(self, env_id: str, env: SelfPlayEnv) -> dict[str, Any]:
        team = env.team_env
        return {
            "mappa": __version__,
            "environment": env_id,
            "title": team.card.title,
            "agents": list(team.card.team.names),
            "most_turns": team.card.order.most_turns,
            "tasks": len(team.task_ids),
            "episodes": self.limits.episodes,
            "idle_s": self.limits.idle_s,
            "body_bytes": self.limits.body_bytes,
        }


def checked_token(host: str) -> str:
    """The token, empty if there is none. Raises OptionError for a host that must not be open without one."""
    found = token()
    if not found and not is_loopback(host):
        raise OptionError(
            f"--host {host} is open to others, who could run code in the sandbox: set a token in the "
            f"environment variable {VARIABLE} ({HINT}), or use --host 127.0.0.1."
        )
    return found


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.create_server((host, port), family=family)
        # Connections inherit it; an answer in two parts would wait 40 ms for the client's acknowledgement.
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) else "the highest port is 65535"
        raise OptionError(
            f"--host {host} --port {port} cannot be used: {why}. Port 0 takes any free one."
        ) from None

"""Room for actors that belong together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mappa_rl.cluster.group import Group, in_order
from mappa_rl.cluster.session import connect, disconnect
from mappa_rl.errors import ClusterError
from mappa_rl.training.follower import Follower
from ray_cluster import nodes, section


def place(node: str, gpu: str = "") -> dict[str, Any]:
    return {"node": node, "address": "", "pid": 1, **({"GPU": gpu} if gpu else {})}


def test_actors_are_in_order_of_node_and_gpu() -> None:
    where = [place("b", "10"), place("a", "1"), place("b", "9"), place("a", "0"), place("c")]
    assert in_order(where) == [2, 0, 3, 1, 4]
    assert in_order([place("a")] * 3) == [0, 1, 2]


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[Any]:
    with nodes(3, cpus=2) as found:
        connect(section(found))
        yield found
        disconnect()


@pytest.mark.slow
def test_actors_of_a_group_begin_on_this_node_and_are_numbered_by_node(three_nodes: Any) -> None:
    ray = connect(section(three_nodes))
    group = Group("members", 5, {"CPU": 1.0}, 60.0)
    actors = group.start(Follower, "member-{}".format)
    where = [each["node"] for each in ray.get([actor.where.remote() for actor in actors])]
    assert where[0] == ray.get_runtime_context().get_node_id()
    assert len(set(where)) == 3
    assert in_order([place(node) for node in where]) == [0, 1, 2, 3, 4]
    assert {f"member-{number}" for number in range(5)} <= set(ray.util.list_named_actors())

    wanted = r"others was not placed .* it wants 2 x 1 CPU, free are (?:.*, )?1 CPU"
    with pytest.raises(ClusterError, match=wanted):
        Group("others", 2, {"CPU": 1.0}, 1.0)
    group.close()
    Group("others", 2, {"CPU": 1.0}, 60.0).close()


@pytest.mark.slow
def test_a_group_takes_the_names_of_one_that_has_just_been_closed(three_nodes: Any) -> None:
    for _ in range(3):
        group = Group("members", 2, {"CPU": 1.0}, 60.0)
        held = group.start(Follower, "member-{}".format)  # an actor that nobody holds ends
        group.close()
    taken = Group("members", 1, {"CPU": 1.0}, 60.0)
    held = taken.start(Follower, "member-{}".format)
    late = Group("members", 1, {"CPU": 1.0}, 2.0)
    with pytest.raises(ClusterError, match=r"the name member-0 was not free within cluster\.placement_s=2"):
        late.start(Follower, "member-{}".format)
    assert len(held) == 1
    taken.close()
    late.close()

"""``cluster.learner_node`` keeps processes that train off all other nodes."""

from __future__ import annotations

import pytest

from mappa_rl.cluster.group import Group
from mappa_rl.cluster.session import connect, disconnect
from mappa_rl.training.follower import Follower
from ray_cluster import MB, nodes, section


@pytest.mark.slow
def test_processes_that_train_are_on_the_nodes_that_are_for_them() -> None:
    with nodes(1, cpus=4) as found:
        apart = found.add_node(num_cpus=1, resources={"learners": 2}, object_store_memory=100 * MB)
        cluster = section(found, learner_node="learners", learner_cpus=0.5)
        ray = connect(cluster)
        group = Group("members", 2, cluster.learner_wish(False), 60.0)
        actors = group.start(Follower, "member-{}".format)
        where = {each["node"] for each in ray.get([actor.where.remote() for actor in actors])}
        group.close()
        disconnect()
    assert where == {apart.node_id}

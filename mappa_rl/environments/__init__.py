"""The environments that rollouts play in: in this process, or in workers on a cluster."""

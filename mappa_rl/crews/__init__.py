"""Crews: groups of processes that each train some of the policies, all at the same time."""

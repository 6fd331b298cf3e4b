"""The interfaces that a learner sees: Gymnasium, PettingZoo AEC, vector."""

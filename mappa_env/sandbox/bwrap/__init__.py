"""Runs every action in its own bubblewrap container."""

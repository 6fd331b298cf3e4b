"""Runs episodes, in lockstep or asynchronously: jobs, sampling, environments, batches, records."""

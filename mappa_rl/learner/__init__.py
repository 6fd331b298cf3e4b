"""Samples and advantages in, one optimizer step out: exact and resumable."""

"""Conformance checks for any registered id or card folder, including the user's own."""

from mappa_env.testing.suites import SUITES, Report, Result, begin, check_environment

__all__ = ["SUITES", "Report", "Result", "begin", "check_environment"]

"""For tools that ask for a setup.py; everything it would say is in pyproject.toml."""

from setuptools import setup

setup()

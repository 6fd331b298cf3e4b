"""Attacks on the sandbox: hostile programs, each proven to work unconfined and asserted to fail confined."""

import pytest

pytest.register_assert_rewrite("attacks.harness")

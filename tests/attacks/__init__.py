"""Attacks on the sandbox: hostile programs. Each must succeed unconfined and fail in the sandbox."""

import pytest

pytest.register_assert_rewrite("attacks.harness")

"""Runs actions on a SandboxFusion server."""

"""Recorded episodes in other tools' formats. ``docs/traces.md`` says what each can represent."""

from mappa_env.trace.exports.formats import FORMATS, Format

__all__ = ["FORMATS", "Format"]

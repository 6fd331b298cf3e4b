#!/bin/sh
# The interpreter of an engine's processes: all that they and their libraries write goes to one file.
exec "$MAPPA_ENGINE_PYTHON" "$@" >>"$MAPPA_ENGINE_LOG" 2>&1

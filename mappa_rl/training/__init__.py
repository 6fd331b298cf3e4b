"""The run itself: preflight, build the parts, the loop, one step."""

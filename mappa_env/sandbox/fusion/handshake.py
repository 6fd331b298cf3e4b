"""Tells which Python runs the server's code, and as whom; sent as ``code`` before the first action.

Runs on any Python 3, so that one that is too old can say so. No agent's code has run yet: what it says is as
true as the server is honest.
"""

import json
import os
import sys

if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "hello.json"), "w") as target:
        hello = {
            "python": list(sys.version_info[:3]),
            "uid": os.getuid(),
            "server_uid": os.stat(__file__).st_uid,  # the server has written this file
        }
        json.dump(hello, target)

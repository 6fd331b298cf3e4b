"""Lets one thread at a time use scikit-learn's ensembles.

While these compute, they replace the warning filters of the whole process. Threads that do so at once leave
the wrong ones behind, and every later call warns.
"""

from __future__ import annotations

import threading

ONE_FIT = threading.Lock()

"""An environment over HTTP, for trainers elsewhere. The server needs the extra ``serve``."""

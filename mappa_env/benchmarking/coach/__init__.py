"""What a coach is worth: faults with a known culprit (``bench``), and injections (``probe``)."""

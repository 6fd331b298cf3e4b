"""What a run does about its coach: bias correction, drift tests, corrected actions, cache and ledger."""

"""The rule-based coach: a score is a weighted mean of checks on the evidence."""

"""Is a coach equally strict for all task families? Tests, drift, and corrections."""

"""A language model as the coach: what it is asked, how patiently, and what is made of the answer."""

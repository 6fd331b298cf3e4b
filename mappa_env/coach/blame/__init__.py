"""Which action caused a failure, by what the host observed."""

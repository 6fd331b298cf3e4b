"""What runs in the sandbox: reads files and prints what they hold. Never imports from outside this folder."""

"""The viewer: recorded episodes in a browser, served on the loopback interface or written as one page."""

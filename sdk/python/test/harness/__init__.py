"""The real server, and the network before it."""

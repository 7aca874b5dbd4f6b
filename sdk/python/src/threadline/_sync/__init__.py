"""The synchronous client. Generated from `_async` by scripts/unasync.py."""

"""The version of the package, which each request names."""

__version__ = "0.1.0"

CLIENT = f"python/{__version__}"

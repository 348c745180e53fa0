"""The `heddle` command: run programs on the Heddle allocator and compare allocators on them."""

__version__ = "0.1.0"

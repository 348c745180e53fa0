"""Heddle's benchmark: interleaved runs of workloads under every allocator found. Start with bench/run.py."""

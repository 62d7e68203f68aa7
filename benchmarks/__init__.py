"""Benchmarks behind the figures in the docs: each compares side by side in one run and prints medians and ratios."""

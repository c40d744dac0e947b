"""Speed and memory against peers, as ratios in one run: `make bench`, explained in docs/benchmarks.md."""

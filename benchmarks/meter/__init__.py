"""How far the meter of GPU time is from the truth: a benchmark."""

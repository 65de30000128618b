"""What `benchmarks/verdicts.py` judges with and by: noise, and the gates that other projects use."""

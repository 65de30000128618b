"""What scheduler and agent do, step by step, as durable workflows; `submit` is the front door."""

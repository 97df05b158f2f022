"""The production evaluator: a typed tree becomes Python source, run with proof or without. `Machine` in evaluate.py."""

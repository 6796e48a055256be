"""Ratios' intervals and the variances behind them, on arrays."""

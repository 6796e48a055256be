"""What the report shows of a campaign beside its ratios: levels, time series, counters."""

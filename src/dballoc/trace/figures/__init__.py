"""What a trace tells: its live curve, sizes, lifetimes, hand-over between threads. All pure."""

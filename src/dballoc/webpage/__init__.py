"""What every page has that dballoc writes: charts drawn in the page itself, their theme, its style.
No request leaves one.
"""

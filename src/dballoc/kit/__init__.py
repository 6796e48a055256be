"""What goes into a kit: one file with which an experiment is measured on a machine that has neither
network nor packages.
"""

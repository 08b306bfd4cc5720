"""Traces scored day and night: passes over an experiment, what they find, and who is told."""

"""What a prediction is worth: metrics, calibration, baselines to beat, and the spread over seeds.

A leaf: plain numbers and arrays in, plain Python dictionaries out, ready for JSON. No tensors, no files.
"""

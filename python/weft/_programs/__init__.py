"""Weft's compiler and its passes on exported programs and fx graphs. C++ does the work; here are the translations."""

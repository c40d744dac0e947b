"""Figures in the paper's form, made from outcomes alone: one file per kind of figure."""

"""The paper in a minute."""

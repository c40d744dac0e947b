"""What exists for exactness or speed and not for the architecture: nothing here changes what a model computes."""

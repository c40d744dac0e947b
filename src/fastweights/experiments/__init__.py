"""What the paper shows, one module per figure or table."""

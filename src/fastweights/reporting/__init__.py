"""What the user sees: tables, figures and what is installed."""

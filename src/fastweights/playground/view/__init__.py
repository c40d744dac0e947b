"""What the page shows, as HTML that needs nothing else: numbers come from the library, texts are escaped."""

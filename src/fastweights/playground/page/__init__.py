"""The gradio part of the page: controls, and which function of the library answers them."""

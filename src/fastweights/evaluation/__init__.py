"""How well a trained model does, one file per measure."""

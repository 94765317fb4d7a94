"""hopwire."""

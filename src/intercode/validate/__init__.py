"""Check data sets: broken and suspicious tasks (`intercode check`)."""

"""The HTTP face: REST, server-sent events and authentication, one small module per noun."""

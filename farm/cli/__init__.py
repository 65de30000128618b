"""The `farm` command: talks HTTP to a farm and starts processes; one module per command."""

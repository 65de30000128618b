"""Other schedulers' rules as small policies for `farm.domain.simulation`, to compare the farm's plan with.

Each is written from what the project's own scheduler does; they are rules, not copies of its code.
"""
